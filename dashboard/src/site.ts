/** What the server tells the document: where it stands, and what the installation is called. */

function told(name: string): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="queen-${name}"]`)?.content ?? "";
}

export const prefix = told("prefix");
export const environment = told("environment");
