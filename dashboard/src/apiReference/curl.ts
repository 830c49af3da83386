/**
 * Shows each request as a curl command, without the token.
 *
 * Swagger UI prints the token in clear text, where a screenshot or a person beside you can take it.
 */

interface Headers {
  map(change: (value: string, name: string) => string): Headers;
}

/** A request as an Immutable.js map. */
export interface SentRequest {
  update(key: "headers", change: (headers?: Headers) => Headers | undefined): SentRequest;
}

interface System {
  React: { createElement(type: unknown, props: object | null, ...children: unknown[]): unknown };
  fn: { requestSnippetGenerator_curl_bash(request: SentRequest): string };
}

interface Properties {
  request: SentRequest;
  getComponent(name: string, isContainer: boolean): unknown;
}

const HIDDEN = "Bearer $QUEEN_TOKEN";

/** Returns the command for a request. Its token comes from the variable `QUEEN_TOKEN` of your shell. */
export function curlCommand(request: SentRequest, generate: (request: SentRequest) => string): string {
  const safe = request.update("headers", (headers) =>
    headers?.map((value, name) => (name.toLowerCase() === "authorization" ? HIDDEN : value)),
  );
  // A shell replaces variables only in double quotes.
  return generate(safe).replace(/'(authorization: Bearer \$QUEEN_TOKEN)'/i, '"$1"');
}

/** The plugin of Swagger UI that replaces its own command. */
export const curlPlugin = ({ React, fn }: System) => ({
  components: {
    curl: ({ request, getComponent }: Properties) =>
      React.createElement(
        "div",
        { className: "curl-command" },
        React.createElement("h4", null, "Curl"),
        React.createElement(
          getComponent("HighlightCode", true),
          { language: "bash", canCopy: true },
          curlCommand(request, fn.requestSnippetGenerator_curl_bash),
        ),
      ),
  },
});
