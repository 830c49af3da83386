/** The parts of Swagger UI in use. It comes without types. */

declare module "*/swagger-ui-es-bundle.js" {
  interface Interface {
    preauthorizeApiKey(scheme: string, token: string): void;
  }

  interface Options {
    dom_id: string;
    url: string;
    deepLinking: boolean;
    defaultModelsExpandDepth: number;
    displayRequestDuration: boolean;
    docExpansion: "list" | "full" | "none";
    filter: boolean;
    persistAuthorization: boolean;
    plugins: (object | ((system: never) => object))[];
    tryItOutEnabled: boolean;
    validatorUrl: null;
    onComplete: () => void;
  }

  export default function SwaggerUI(options: Options): Interface;
}
