// An OpenID provider on this machine: `node provider.mjs PORT PAGE [CLAIMS]`. PAGE: the page's redirect address. CLAIMS: JSON of what access
// tokens have in place of the provider's own claims, null for none. Keys are new at each start.
import { generateKeyPairSync } from "node:crypto";
import Provider from "oidc-provider";

const [port, page, claims = "{}"] = process.argv.slice(2);
const grants = ["authorization_code", "refresh_token"];
const client = { token_endpoint_auth_method: "none", response_types: ["code"], application_type: "native" };
const key = { ...generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256" };
const api = { scope: "logs:read logs:write", audience: "runlake", accessTokenFormat: "jwt", accessTokenTTL: 3600, jwt: { sign: { alg: "RS256" } } };
const absent = { toJSON() {} }; // the provider itself signs no access token without an audience
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    { ...client, client_id: "page", grant_types: grants, redirect_uris: [page], post_logout_redirect_uris: [page] },
    { ...client, client_id: "cli", grant_types: [...grants, "urn:ietf:params:oauth:grant-type:device_code"], redirect_uris: ["http://127.0.0.1/callback"] },
    { client_id: "bot", client_secret: "of a test", grant_types: ["client_credentials"], response_types: [], redirect_uris: [] },
  ],
  jwks: { keys: [key] },
  cookies: { keys: ["of a test"] },
  scopes: ["openid", "offline_access", "logs:read", "logs:write"],
  formats: {
    customizers: {
      jwt(_context, _token, { payload }) {
        for (const [name, value] of Object.entries(JSON.parse(claims))) payload[name] = value ?? absent;
      },
    },
  },
  features: {
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: { enabled: true, useGrantedResource: () => true, getResourceServerInfo: () => api },
  },
  pkce: { required: () => true },
  clientBasedCORS: () => true,
  ttl: { Session: 3600, Grant: 3600, Interaction: 600, IdToken: 600, RefreshToken: 3600, DeviceCode: 600 },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
