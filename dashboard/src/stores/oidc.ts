/**
 * Sign in at the installation's OpenID provider: authorization code with PKCE, as a public client.
 *
 * The page asks the provider for the tokens itself; what they are worth the server judges.
 */

import { prefix, type Provider, provider } from "../lib/pageConfig";

/** What this tab holds of the provider, in its session storage. */
export interface Grant {
  /** The token that the server is shown. */
  bearer: string;
  idToken: string;
  refreshToken: string | null;
  /** When to ask for the next one; null: nobody knows. */
  renewAt: number | null;
}

interface Pending {
  state: string;
  nonce: string;
  verifier: string;
  /** Where somebody wanted to go, with all filters. */
  path: string;
}

interface Return {
  told: URLSearchParams;
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
/** Of a token's life; then the next one is asked for. */
const RENEW_SHARE = 0.75;
const AGAIN = "Sign in again.";

let returned = readReturn();

/** What the provider told this tab when it sent it back; once. */
export function takeReturn(): Return | null {
  const told = returned;
  returned = null;
  return told;
}

function readReturn(): Return | null {
  if (!provider || location.pathname !== PATH) return null;
  const told = new URLSearchParams(location.search);
  const pending = JSON.parse(sessionStorage.getItem(PENDING) ?? "null") as Pending | null;
  sessionStorage.removeItem(PENDING);
  // The code stays neither in the URL nor in the history.
  // With the origin: a path that begins with two slashes would be another site.
  history.replaceState(null, "", location.origin + (pending?.path ?? `${prefix}/`));
  return { told, pending };
}

function known(): { provider: Provider; endpoints: NonNullable<Provider["endpoints"]> } {
  if (!provider?.endpoints) throw new Error("The provider does not answer the server. Reload this page in a moment.");
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

/** Leave for the provider; it sends this tab back to where it is now. */
export async function begin(): Promise<void> {
  const { provider, endpoints } = known();
  if (!isSecureContext) throw new Error("Browsers allow this over https alone: open the dashboard by its https address.");
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

/** What a return is worth; throws a sentence that says what to do. */
export async function finish({ told, pending }: Return): Promise<Grant> {
  const { provider } = known();
  if (!pending || told.get("state") !== pending.state)
    throw new Error(`This sign-in was not begun in this tab, or is over already. ${AGAIN}`);
  if ((told.get("iss") ?? provider.issuer) !== provider.issuer)
    throw new Error(`The answer is of another provider than ${provider.name}. ${AGAIN}`);
  const fault = told.get("error");
  if (fault !== null)
    throw new Error(`${provider.name} did not let you in: ${told.get("error_description") ?? fault}. Sign in as somebody else, or ask whoever runs it.`);
  const tokens = await exchange({
    grant_type: "authorization_code",
    code: told.get("code") ?? "",
    redirect_uri: location.origin + PATH,
    code_verifier: pending.verifier,
  });
  const claims = claimsOf(tokens.id_token);
  const isForUs = [claims?.aud].flat().includes(provider.clientId);
  if (!claims || claims.iss !== provider.issuer || !isForUs || claims.nonce !== pending.nonce)
    throw new Error(`${provider.name} answered with a token that was not made for this sign-in. ${AGAIN} If it happens again, tell whoever runs this server.`);
  if ((claims.exp ?? 0) * 1_000 + CLOCKS_DIFFER_MILLIS < Date.now())
    throw new Error(`${provider.name} answered with a token that is over. Look whether the clock of this machine is right. ${AGAIN}`);
  return grantOf(tokens, tokens.id_token ?? "", null);
}

/** The next tokens; throws when the provider gives none. */
export async function renew(grant: Grant): Promise<Grant> {
  if (!grant.refreshToken) throw new Error("There is nothing to renew.");
  const tokens = await exchange({ grant_type: "refresh_token", refresh_token: grant.refreshToken });
  if (tokens.id_token && claimsOf(tokens.id_token)?.sub !== claimsOf(grant.idToken)?.sub)
    throw new Error("The token is somebody else's.");
  return grantOf(tokens, tokens.id_token ?? grant.idToken, grant.refreshToken);
}

/** Where signing out goes on; null where the provider has no such page. */
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
  if (!bearer) throw new Error(`${provider?.name} gave no token for this server. Tell whoever runs it: see OIDC_TOKEN and OIDC_SCOPES.`);
  const { exp, iat } = claimsOf(bearer) ?? {};
  // Its own life rather than the hour of its end: clocks differ.
  const seconds = exp !== undefined && iat !== undefined ? exp - iat : (tokens.expires_in ?? null);
  return {
    bearer,
    idToken,
    refreshToken: tokens.refresh_token ?? oldRefreshToken,
    renewAt: seconds === null ? null : Date.now() + seconds * 1_000 * RENEW_SHARE,
  };
}

/** Ask the provider for tokens; throws a sentence that says what to do. */
async function exchange(form: Record<string, string>): Promise<Tokens> {
  const { provider, endpoints } = known();
  let answer: Response;
  try {
    answer = await fetch(endpoints.token_endpoint, {
      method: "POST",
      body: new URLSearchParams({ ...form, client_id: provider.clientId }),
      credentials: "omit",
      signal: AbortSignal.timeout(TIMEOUT_MILLIS),
    });
  } catch {
    throw new Error(`${provider.name} cannot be reached from this page: it is away, or does not allow pages of ${location.origin} to ask for tokens (CORS). Try again, or tell whoever runs it.`);
  }
  const told = (await answer.json().catch(() => ({}))) as Tokens & { error?: string };
  if (answer.ok) return told;
  if (told.error === "invalid_grant")
    throw new Error(`${provider.name} no longer takes this sign-in: it took too long, or was used before. ${AGAIN}`);
  throw new Error(`${provider.name} gave no token: ${told.error ?? answer.status}. Tell whoever runs this server.`);
}

/** What a token says; the connection to the provider vouches for it here, the server checks its signature. */
function claimsOf(token: string | undefined): Claims | null {
  try {
    const part = (token ?? "").split(".")[1] ?? "";
    const raw = atob(part.replace(/-/g, "+").replace(/_/g, "/"));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(raw, (letter) => letter.charCodeAt(0)))) as Claims;
  } catch {
    return null;
  }
}
