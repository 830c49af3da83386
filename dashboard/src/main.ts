import "./style.css";

import { QueryCache, QueryClient, VueQueryPlugin } from "@tanstack/vue-query";
import { createPinia } from "pinia";
import { createApp } from "vue";

import { ApiError } from "./api/client";
import App from "./App.vue";
import { router } from "./router";
import { useSession } from "./stores/session";

const queries = new QueryClient({
  queryCache: new QueryCache({
    // A key that was revoked, or a token that is over.
    onError: (error) => {
      if (error instanceof ApiError && error.status === 401) void useSession().lapse();
    },
  }),
  defaultOptions: {
    // When to ask again is for live.ts to say: focus must not end a pause, nor a browser that
    // takes itself for offline begin one: the server may be on this machine.
    queries: { networkMode: "always", retry: false, refetchOnWindowFocus: false, refetchOnReconnect: false },
  },
});

createApp(App)
  .use(createPinia())
  .use(VueQueryPlugin, { queryClient: queries })
  .use(router)
  .mount("#app");
