/**
 * Sign in at the OpenID provider of the installation, as a public client with authorization code and PKCE.
 *
 * The page requests the tokens itself. The server validates them.
 */

import { prefix, type Provider, provider } from "../lib/pageConfig";
import { providerTexts } from "../text/signIn";

/** The tokens of the provider, kept in the session storage of this tab. */
export interface Grant {
  /** The token sent to the server. */
  bearer: string;
  idToken: string;
  refreshToken: string | null;
  /** When to renew the token. Null if its lifetime is unknown. */
  renewAt: number | null;
}

interface Pending {
  state: string;
  nonce: string;
  verifier: string;
  /** The page to return to, with its filters. */
  path: string;
}

interface Return {
  parameters: URLSearchParams;
  pending: Pending | null;
}

interface Tokens {
  access_token?: string;
  id_token?: string;
  refresh_token?: string;
  expires_in?: number;
}

type Claims = Partial<Record<"iss" | "sub" | "nonce", string>> & { aud?: string | string[]; exp?: number; iat?: number };

const PENDING = "queen.sign-in";
const PATH = `${prefix}/signed-in`;
const TIMEOUT_MILLIS = 15_000;
const CLOCKS_DIFFER_MILLIS = 300_000;
/** Renew a token after this share of its lifetime. */
const RENEW_SHARE = 0.75;

let returned = readReturn();

/** Take the parameters that the provider returned. A second call returns null. */
export function takeReturn(): Return | null {
  const taken = returned;
  returned = null;
  return taken;
}

function readReturn(): Return | null {
  if (!provider || location.pathname !== PATH) return null;
  const parameters = new URLSearchParams(location.search);
  const pending = JSON.parse(sessionStorage.getItem(PENDING) ?? "null") as Pending | null;
  sessionStorage.removeItem(PENDING);
  // Remove the code from the URL and the history.
  // Prepend the origin because a path that starts with two slashes would be another site.
  history.replaceState(null, "", location.origin + (pending?.path ?? `${prefix}/`));
  return { parameters, pending };
}

function known(): { provider: Provider; endpoints: NonNullable<Provider["endpoints"]> } {
  if (!provider?.endpoints) throw new Error(providerTexts.unavailable);
  return { provider, endpoints: provider.endpoints };
}

function inUrl(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
}

function random(): string {
  return inUrl(crypto.getRandomValues(new Uint8Array(32)));
}

function withQuery(address: string, query: Record<string, string>): string {
  const url = new URL(address);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return url.href;
}

/** Redirect to the provider, which returns this tab to the current page. */
export async function begin(): Promise<void> {
  const { provider, endpoints } = known();
  if (!isSecureContext) throw new Error(providerTexts.needsHttps);
  const pending: Pending = {
    state: random(),
    nonce: random(),
    verifier: random(),
    path: location.pathname + location.search + location.hash,
  };
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(pending.verifier));
  sessionStorage.setItem(PENDING, JSON.stringify(pending));
  location.assign(
    withQuery(endpoints.authorization_endpoint, {
      response_type: "code",
      client_id: provider.clientId,
      redirect_uri: location.origin + PATH,
      scope: provider.scopes,
      state: pending.state,
      nonce: pending.nonce,
      code_challenge: inUrl(new Uint8Array(digest)),
      code_challenge_method: "S256",
    }),
  );
}

/** Exchange the returned code for tokens. Errors tell the user what to do. */
export async function finish({ parameters, pending }: Return): Promise<Grant> {
  const { provider } = known();
  if (!pending || parameters.get("state") !== pending.state)
    throw new Error(providerTexts.notStarted);
  if ((parameters.get("iss") ?? provider.issuer) !== provider.issuer)
    throw new Error(providerTexts.otherIssuer(provider.name));
  const fault = parameters.get("error");
  if (fault !== null)
    throw new Error(providerTexts.denied(provider.name, parameters.get("error_description") ?? fault));
  const tokens = await exchange({
    grant_type: "authorization_code",
    code: parameters.get("code") ?? "",
    redirect_uri: location.origin + PATH,
    code_verifier: pending.verifier,
  });
  const claims = claimsOf(tokens.id_token);
  const isForUs = [claims?.aud].flat().includes(provider.clientId);
  if (!claims || claims.iss !== provider.issuer || !isForUs || claims.nonce !== pending.nonce)
    throw new Error(providerTexts.foreignToken(provider.name));
  if ((claims.exp ?? 0) * 1_000 + CLOCKS_DIFFER_MILLIS < Date.now())
    throw new Error(providerTexts.expiredToken(provider.name));
  return grantOf(tokens, tokens.id_token ?? "", null);
}

/** Renew the tokens. Throws if the provider returns none. */
export async function renew(grant: Grant): Promise<Grant> {
  if (!grant.refreshToken) throw new Error(providerTexts.noRefreshToken);
  const tokens = await exchange({ grant_type: "refresh_token", refresh_token: grant.refreshToken });
  if (tokens.id_token && claimsOf(tokens.id_token)?.sub !== claimsOf(grant.idToken)?.sub)
    throw new Error(providerTexts.otherUser);
  return grantOf(tokens, tokens.id_token ?? grant.idToken, grant.refreshToken);
}

/** The logout page of the provider, or null if it has none. */
export function signOutUrl(grant: Grant): string | null {
  const { provider, endpoints } = known();
  if (!endpoints.end_session_endpoint) return null;
  return withQuery(endpoints.end_session_endpoint, {
    id_token_hint: grant.idToken,
    client_id: provider.clientId,
    post_logout_redirect_uri: `${location.origin}${prefix}/`,
  });
}

function grantOf(tokens: Tokens, idToken: string, oldRefreshToken: string | null): Grant {
  const bearer = provider?.token === "id" ? tokens.id_token : tokens.access_token;
  if (!bearer) throw new Error(providerTexts.noToken(provider?.name));
  const { exp, iat } = claimsOf(bearer) ?? {};
  // Use the lifetime instead of the expiry time because clocks differ.
  const seconds = exp !== undefined && iat !== undefined ? exp - iat : (tokens.expires_in ?? null);
  return {
    bearer,
    idToken,
    refreshToken: tokens.refresh_token ?? oldRefreshToken,
    renewAt: seconds === null ? null : Date.now() + seconds * 1_000 * RENEW_SHARE,
  };
}

/** Request tokens from the provider. Errors tell the user what to do. */
async function exchange(form: Record<string, string>): Promise<Tokens> {
  const { provider, endpoints } = known();
  let response: Response;
  try {
    response = await fetch(endpoints.token_endpoint, {
      method: "POST",
      body: new URLSearchParams({ ...form, client_id: provider.clientId }),
      credentials: "omit",
      signal: AbortSignal.timeout(TIMEOUT_MILLIS),
    });
  } catch {
    throw new Error(providerTexts.unreachable(provider.name, location.origin));
  }
  const body = (await response.json().catch(() => ({}))) as Tokens & { error?: string };
  if (response.ok) return body;
  if (body.error === "invalid_grant")
    throw new Error(providerTexts.invalidGrant(provider.name));
  throw new Error(providerTexts.failed(provider.name, body.error ?? response.status));
}

/** Read the claims of a token. The server verifies the signature; here the TLS connection is enough. */
function claimsOf(token: string | undefined): Claims | null {
  try {
    const part = (token ?? "").split(".")[1] ?? "";
    const raw = atob(part.replace(/-/g, "+").replace(/_/g, "/"));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(raw, (letter) => letter.charCodeAt(0)))) as Claims;
  } catch {
    return null;
  }
}
