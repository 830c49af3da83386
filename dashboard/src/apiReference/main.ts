/** The API reference: Swagger UI on the OpenAPI document of this server. */

import "../../vendor/swagger-ui/swagger-ui.css";
import "./style.css";

import SwaggerUI from "../../vendor/swagger-ui/swagger-ui-es-bundle.js";

import { prefix } from "../lib/pageConfig";
import { curlPlugin } from "./curl";
import { resolverPlugin } from "./resolver";
import { leaveWith } from "./signOut";
import { isDark } from "./theme";

const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function paint(): void {
  const dark = isDark(localStorage.getItem("queen.theme"), prefersDark.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  // The class that Swagger UI's own stylesheet uses.
  document.documentElement.classList.toggle("dark-mode", dark);
}
paint();
prefersDark.addEventListener("change", paint);

const reference = SwaggerUI({
  dom_id: "#reference",
  url: `${prefix}/api/v1/openapi.json`,
  deepLinking: true,
  // The list of all types is longer than the list of all operations, and each operation shows its types.
  defaultModelsExpandDepth: -1,
  displayRequestDuration: true,
  // All operations at once take twice as long to draw.
  docExpansion: "none",
  filter: true,
  // An API key is kept in memory only, and a reload forgets it.
  persistAuthorization: false,
  plugins: [resolverPlugin, curlPlugin],
  tryItOutEnabled: true,
  // The default sends the document's URL to a validator on the internet.
  validatorUrl: null,
  onComplete: () => {
    // The tab is signed in to the dashboard.
    const token = sessionStorage.getItem("queen.token");
    if (token) reference.preauthorizeApiKey("bearer", token);
  },
});

new BroadcastChannel(`queen${prefix}`).onmessage = ({ data }: MessageEvent<string>) => void leaveWith(data);
