/** Texts of the pipelines page. */

export const texts = {
  about: "Spark jobs and the status that they report",
  silent: (state: string) => `${state}, no recent report`,
  empty: "No pipelines yet",
  batch: (id: string, took: string) => `${id}, took ${took}`,
  rows: (perSecond: string, all: string) => `${perSecond}/s, ${all} in this run`,
} as const;
