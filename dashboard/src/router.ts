/** The routes. Each name of a queue, group, workflow or trace is one encoded path segment. */

import { createRouter, createWebHistory, type RouteRecordRaw } from "vue-router";

// Must come first: it restores the URL after a sign-in, before the router reads it.
import "./stores/oidc";
import { watchNavigation } from "./composables/useUrlState";
import { prefix } from "./lib/pageConfig";
import OverviewPage from "./views/overview/OverviewPage.vue";

function page(path: string, name: string, title: string, component: () => Promise<unknown>): RouteRecordRaw {
  return { path, name, component, props: true, meta: { title } } as RouteRecordRaw;
}

export const router = createRouter({
  history: createWebHistory(`${prefix}/`),
  // Don't scroll on the first page: it is at the top already, and scrolling costs a layout.
  scrollBehavior: (to, from, saved) => saved ?? (to.path === from.path || !from.name ? false : { top: 0 }),
  routes: [
    { path: "/", name: "overview", component: OverviewPage, meta: { title: "Overview" } },
    page("/start", "start", "Get started", () => import("./views/start/StartPage.vue")),
    page("/queues", "queues", "Queues", () => import("./views/queues/QueuesPage.vue")),
    page("/queues/:queue", "queue", "Queue", () => import("./views/queues/QueuePage.vue")),
    page("/messages", "messages", "Messages", () => import("./views/messages/MessagesPage.vue")),
    page("/messages/:message/:transactionId?", "message", "Message", () => import("./views/messages/MessagePage.vue")),
    page("/compare", "compare", "Compare", () => import("./views/messages/ComparePage.vue")),
    page("/tail", "tail", "Live tail", () => import("./views/messages/TailPage.vue")),
    page("/dead-letters", "dead-letters", "Dead letters", () => import("./views/dead-letters/DeadLettersPage.vue")),
    page("/groups", "groups", "Consumer groups", () => import("./views/groups/GroupsPage.vue")),
    page("/groups/:group/queues/:queue", "group", "Consumer group", () => import("./views/groups/GroupPage.vue")),
    page("/jobs", "jobs", "Jobs", () => import("./views/jobs/JobsPage.vue")),
    page("/jobs/:queue/:id", "job", "Job", () => import("./views/jobs/JobPage.vue")),
    page("/workflows", "workflows", "Workflows", () => import("./views/workflows/WorkflowsPage.vue")),
    page("/workflows/:workflow", "workflow", "Workflow", () => import("./views/workflows/WorkflowPage.vue")),
    page("/traces", "traces", "Traces", () => import("./views/traces/TracesPage.vue")),
    page("/traces/:trace", "trace", "Trace", () => import("./views/traces/TracePage.vue")),
    page("/pipelines", "pipelines", "Pipelines", () => import("./views/pipelines/PipelinesPage.vue")),
    page("/pipelines/:pipeline", "pipeline", "Pipeline", () => import("./views/pipelines/PipelinePage.vue")),
    page("/analytics", "analytics", "Analytics", () => import("./views/analytics/AnalyticsPage.vue")),
    page("/system", "system", "System", () => import("./views/system/SystemPage.vue")),
    page("/:path(.*)*", "missing", "Page not found", () => import("./views/NotFoundPage.vue")),
  ],
});

watchNavigation(router);

router.afterEach((to) => {
  const name = to.params.group ?? to.params.queue ?? to.params.trace ?? to.params.workflow;
  document.title = `${typeof name === "string" ? name : String(to.meta.title)} · Queen`;
});
