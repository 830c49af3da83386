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
    // The API key was revoked, or the token expired.
    onError: (error) => {
      if (error instanceof ApiError && error.status === 401) void useSession().lapse();
    },
  }),
  defaultOptions: {
    // stores/live.ts decides when to refetch. Focus must not end a pause, and offline detection must not
    // start one, because the server may run on this machine.
    queries: { networkMode: "always", retry: false, refetchOnWindowFocus: false, refetchOnReconnect: false },
  },
});

createApp(App)
  .use(createPinia())
  .use(VueQueryPlugin, { queryClient: queries })
  .use(router)
  .mount("#app");
