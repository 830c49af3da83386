/** What the server tells the document: where it stands, what the installation is called, where others are. */

export interface Provider {
  name: string;
  issuer: string;
  clientId: string;
  scopes: string;
  /** Which token this server takes. */
  token: "access" | "id";
  /** Null while the provider does not answer the server. */
  endpoints: {
    authorization_endpoint: string;
    token_endpoint: string;
    end_session_endpoint: string | null;
  } | null;
}

function told(name: string): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="queen-${name}"]`)?.content ?? "";
}

export const prefix = told("prefix");
export const environment = told("environment");

/** A trace id as a fact; it leads to the tracing system, if the server knows where that is. */
export function traceFact(traceId: string | null) {
  if (!traceId) return [];
  const href = told("traces").replaceAll("{traceId}", encodeURIComponent(traceId)) || undefined;
  return [{ name: "Trace id", value: traceId, isId: true, href }];
}

export const provider = JSON.parse(told("oidc") || "null") as Provider | null;
