/** The pages. Names of queues, groups, workflows and traces are one segment each, whatever they hold. */

import { createRouter, createWebHistory, type RouteRecordRaw } from "vue-router";

// Before the history is made: it gives the URL of a return from the provider back to the page.
import "./oidc";
import { heedLeaving } from "./address";
import { prefix } from "./site";
import OverviewPage from "./views/OverviewPage.vue";

function page(path: string, name: string, title: string, component: () => Promise<unknown>): RouteRecordRaw {
  return { path, name, component, props: true, meta: { title } } as RouteRecordRaw;
}

export const router = createRouter({
  history: createWebHistory(`${prefix}/`),
  // Not of the first page, which is at its top: to scroll is to lay it out once more.
  scrollBehavior: (to, from, saved) => saved ?? (to.path === from.path || !from.name ? false : { top: 0 }),
  routes: [
    { path: "/", name: "overview", component: OverviewPage, meta: { title: "Overview" } },
    page("/queues", "queues", "Queues", () => import("./views/QueuesPage.vue")),
    page("/queues/:queue", "queue", "Queue", () => import("./views/QueuePage.vue")),
    page("/messages", "messages", "Messages", () => import("./views/MessagesPage.vue")),
    page("/messages/:message/:transactionId?", "message", "Message", () => import("./views/MessagePage.vue")),
    page("/compare", "compare", "Compare", () => import("./views/ComparePage.vue")),
    page("/tail", "tail", "Live tail", () => import("./views/TailPage.vue")),
    page("/dead-letters", "dead-letters", "Dead letters", () => import("./views/DeadLettersPage.vue")),
    page("/groups", "groups", "Consumer groups", () => import("./views/GroupsPage.vue")),
    page("/groups/:group/queues/:queue", "group", "Consumer group", () => import("./views/GroupPage.vue")),
    page("/jobs", "jobs", "Jobs", () => import("./views/JobsPage.vue")),
    page("/jobs/:queue/:id", "job", "Job", () => import("./views/JobPage.vue")),
    page("/workflows", "workflows", "Workflows", () => import("./views/WorkflowsPage.vue")),
    page("/workflows/:workflow", "workflow", "Workflow", () => import("./views/WorkflowPage.vue")),
    page("/traces", "traces", "Traces", () => import("./views/TracesPage.vue")),
    page("/traces/:trace", "trace", "Trace", () => import("./views/TracePage.vue")),
    page("/pipelines", "pipelines", "Pipelines", () => import("./views/PipelinesPage.vue")),
    page("/analytics", "analytics", "Analytics", () => import("./views/AnalyticsPage.vue")),
    page("/system", "system", "System", () => import("./views/SystemPage.vue")),
    page("/:path(.*)*", "missing", "No such page", () => import("./views/MissingPage.vue")),
  ],
});

heedLeaving(router);

router.afterEach((to) => {
  const name = to.params.group ?? to.params.queue ?? to.params.trace ?? to.params.workflow;
  document.title = `${typeof name === "string" ? name : String(to.meta.title)} · Queen`;
});
