/** Texts of the sign-in page, of sessions that end, and of errors of the identity provider. */

const AGAIN = "Sign in again.";

export const texts = {
  providerUnreachable: (provider: string) =>
    `This server cannot reach ${provider}. Reload this page in a moment, or sign in with an API key.`,
  signedOutElsewhere: "You signed out in another tab.",
  expired: `You were signed out because this API key or token is no longer valid. ${AGAIN}`,
  rejected: (provider: string | undefined, why: string) =>
    `${provider} signed you in, but this server rejected its token (${why}). Ask your administrator to check JWT_AUDIENCE and OIDC_TOKEN.`,
} as const;

export const providerTexts = {
  unavailable: "The server cannot reach the identity provider. Reload this page in a moment.",
  needsHttps: "Sign-in needs HTTPS. Open the dashboard at its https:// address.",
  notStarted: `This sign-in was not started in this tab, or has already finished. ${AGAIN}`,
  otherIssuer: (name: string) => `The response came from a different provider than ${name}. ${AGAIN}`,
  denied: (name: string, why: string) =>
    `${name} denied the sign-in: ${why}. Use a different account, or ask your administrator.`,
  foreignToken: (name: string) =>
    `${name} returned a token that was not issued for this sign-in. ${AGAIN} If it happens again, tell your administrator.`,
  expiredToken: (name: string) => `${name} returned an expired token. Check the clock of this computer. ${AGAIN}`,
  noRefreshToken: "The provider returned no refresh token.",
  otherUser: "The renewed token belongs to a different user.",
  noToken: (name: string | undefined) =>
    `${name} returned no token for this server. Ask your administrator to check OIDC_TOKEN and OIDC_SCOPES.`,
  unreachable: (name: string, origin: string) =>
    `This page cannot reach ${name}. It is unavailable, or it does not allow ${origin} to request tokens (CORS). Try again, or tell your administrator.`,
  invalidGrant: (name: string) =>
    `${name} no longer accepts this sign-in because it took too long or was used before. ${AGAIN}`,
  failed: (name: string, why: string | number) => `${name} returned no token: ${why}. Tell your administrator.`,
} as const;
