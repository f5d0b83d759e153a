// A certified OpenID provider (npm: oidc-provider) as agents and a gateway meet one: `node provider.mjs <its folder> <port> <keys>`.
// With a fourth argument, people agree to what a client named `counterfoil` asks for, with refresh tokens for one use: it is JSON,
// `{"redirects": […], "lives_s": 60}`.
// It signs with the first of `keys` (a JWK set in a file), and says on its output where it listens.
import { readFileSync } from 'node:fs';

const [library, port, keys, more] = process.argv.slice(2);
const agreeing = more ? JSON.parse(more) : { redirects: [], lives_s: 600 };
const { Provider } = await import(`${library}/lib/index.js`);

const provider = new Provider(`http://127.0.0.1:${port}`, {
  jwks: JSON.parse(readFileSync(keys, 'utf8')),
  clients: [
    { client_id: 'robot', client_secret: 'robot-secret', grant_types: ['client_credentials'], redirect_uris: [], response_types: [] },
    { client_id: 'opaque', client_secret: 'opaque-secret', grant_types: ['client_credentials'], redirect_uris: [], response_types: [] },
    { client_id: 'agent', token_endpoint_auth_method: 'none', redirect_uris: ['http://127.0.0.1:9/back'], application_type: 'native' },
    ...(more ? [{ client_id: 'counterfoil', client_secret: 'counterfoil-secret', redirect_uris: agreeing.redirects, grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] }] : []),
    { client_id: 'gateway', client_secret: 'gateway-secret', grant_types: [], redirect_uris: [], response_types: [] },
  ],
  scopes: ['openid', 'offline_access', 'mcp', 'time'],
  clientDefaults: { token_endpoint_auth_method: 'client_secret_basic' },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  issueRefreshToken: (_, client) => client.clientId === 'counterfoil',
  rotateRefreshToken: true,
  ttl: { AccessToken: agreeing.lives_s },
  features: {
    clientCredentials: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    revocation: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource, client) => ({
        scope: 'mcp time',
        audience: resource,
        accessTokenTTL: agreeing.lives_s,
        accessTokenFormat: client.clientId === 'opaque' ? 'opaque' : 'jwt',
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
});

provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
