/** Configuration that the server writes into the document: path prefix, environment, trace URL, OpenID provider. */

export interface Provider {
  name: string;
  issuer: string;
  clientId: string;
  scopes: string;
  /** The kind of token that this server accepts. */
  token: "access" | "id";
  /** Null while the server cannot reach the provider. */
  endpoints: {
    authorization_endpoint: string;
    token_endpoint: string;
    end_session_endpoint: string | null;
  } | null;
}

function metaContent(name: string): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="queen-${name}"]`)?.content ?? "";
}

export const prefix = metaContent("prefix");
/** The same address as in pyproject.toml. A test compares them. */
export const documentation = "https://example.com/queen/docs";
export const environment = metaContent("environment");

/** The trace ID as a fact, with a link if a tracing system is configured. */
export function traceFact(traceId: string | null) {
  if (!traceId) return [];
  const href = metaContent("traces").replaceAll("{traceId}", encodeURIComponent(traceId)) || undefined;
  return [{ name: "Trace ID", value: traceId, isId: true, href }];
}

export const provider = JSON.parse(metaContent("oidc") || "null") as Provider | null;
