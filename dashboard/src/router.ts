/** The pages. Names of queues are one segment each, whatever they hold. */

import { createRouter, createWebHistory } from "vue-router";

import { prefix } from "./site";
import OverviewPage from "./views/OverviewPage.vue";

export const router = createRouter({
  history: createWebHistory(`${prefix}/`),
  scrollBehavior: (to, from, saved) => saved ?? (to.path === from.path ? false : { top: 0 }),
  routes: [
    { path: "/", name: "overview", component: OverviewPage, meta: { title: "Overview" } },
    {
      path: "/queues",
      name: "queues",
      component: () => import("./views/QueuesPage.vue"),
      meta: { title: "Queues" },
    },
    {
      path: "/queues/:queue",
      name: "queue",
      component: () => import("./views/QueuePage.vue"),
      props: true,
      meta: { title: "Queue" },
    },
    {
      path: "/:path(.*)*",
      name: "missing",
      component: () => import("./views/MissingPage.vue"),
      meta: { title: "No such page" },
    },
  ],
});

router.afterEach((to) => {
  const name = to.params.queue;
  document.title = `${typeof name === "string" ? name : String(to.meta.title)} · Queen`;
});
