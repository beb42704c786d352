// oidc-provider as the authorization server of the live tests: `node provider.mjs`.
//
// Listens on a free port of loopback and says `issuer at URL` on standard error. People sign in under any name
// and agree on a page of their own; clients register themselves, have a metadata document, or are known from the
// start. Beside OAuth it has addresses for the tests:
//   GET  /_events?what=W&count=N   what has happened, once there are N of that kind (held open until then)
//   POST /_begin                   a new test: nothing has happened yet, and nothing is done wrong
//   POST /_switch {...}            lifetimes, and what is done wrong; {} for none of that
//   POST /_revoke                  ends all that people agreed to
//   POST /_forget                  forgets the clients that registered themselves
import { once } from 'node:events';
import http from 'node:http';
import { Provider } from 'oidc-provider';
import { createMemoryAdapter } from '../node_modules/oidc-provider/lib/adapters/memory_adapter.js';

const RESOURCE_SCOPES = 'notes:read notes:write';
const KEY_OF_THE_MACHINE = process.env.MACHINE_JWKS ? JSON.parse(process.env.MACHINE_JWKS) : { keys: [] };
const CLIENT_DOCUMENT = process.env.CLIENT_DOCUMENT ? JSON.parse(process.env.CLIENT_DOCUMENT) : null;

let events = [];
let switches = {};
let waiting = [];
const grants = new Set();

function note(what, more = {}) {
  events.push({ what, ...more });
  waiting = waiting.filter((look) => !look());
}

const server = http.createServer();
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const issuer = `http://127.0.0.1:${server.address().port}`;

const adapter = createMemoryAdapter();
const provider = new Provider(issuer, {
  adapter,
  clients: [
    { client_id: 'resource-server', client_secret: 'of-the-resource-server', redirect_uris: [], response_types: [], grant_types: [] },
    { client_id: 'fixed', client_secret: 'fixed-secret', redirect_uris: ['http://127.0.0.1/callback'], application_type: 'native', grant_types: ['authorization_code', 'refresh_token'] },
    { client_id: 'machine', client_secret: 'machine/secret+', redirect_uris: [], response_types: [], grant_types: ['client_credentials'] },
    { client_id: 'machine-with-key', token_endpoint_auth_method: 'private_key_jwt', jwks: KEY_OF_THE_MACHINE, redirect_uris: [], response_types: [], grant_types: ['client_credentials'] },
  ],
  scopes: ['openid', 'offline_access', ...(process.env.SCOPES ?? '').split(' ').filter(Boolean)],
  cookies: { keys: ['of these tests'] },
  clockTolerance: 0,
  pkce: { required: () => true },
  rotateRefreshToken: true,
  fetch: async () => Response.json(CLIENT_DOCUMENT),
  findAccount: (_ctx, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    clientIdMetadataDocument: { enabled: CLIENT_DOCUMENT !== null, ack: 'draft-02' },
    introspection: { enabled: true, allowedPolicy: (_ctx, client) => client.clientId === 'resource-server' },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_ctx, resource) => ({
        scope: RESOURCE_SCOPES,
        audience: resource,
        accessTokenFormat: 'opaque',
        accessTokenTTL: switches.lifetime ?? 3600,
      }),
    },
  },
  interactions: { url: (_ctx, interaction) => `/_page/${interaction.uid}` },
});

provider.on('registration_create.success', (_ctx, client) => note('registered', { client: client.clientId, redirect_uris: client.redirectUris }));
provider.on('registration_create.error', (_ctx, error) => note('registration refused', { error: error.error_description }));
provider.on('authorization.error', (_ctx, error) => note('authorization refused', { error: error.error_description }));
provider.on('grant.success', (ctx) => note(ctx.oidc.params.grant_type, { scope: ctx.body.scope, resource: ctx.oidc.params.resource }));
provider.on('grant.error', (ctx, error) => note('grant refused', { grant: ctx.oidc.params?.grant_type, error: error.error, why: error.error_detail }));
provider.on('grant.revoked', () => note('grant revoked'));
provider.on('revocation.error', (_ctx, error) => note('revocation refused', { error: error.error_description }));

for (const kind of ['access_token', 'client_credentials']) {
  provider.on(`${kind}.saved`, (token) => {
    const ours = events;
    setTimeout(() => ours === events && note('expired'), token.expiration * 1000);
  });
}

provider.use(async (ctx, next) => {
  if (ctx.path === '/token' && switches.token_status) {
    note('token request turned away');
    ctx.status = switches.token_status;
    return;
  }
  await next();
  if (ctx.path.startsWith('/.well-known/') && switches.issuer && ctx.body?.issuer) {
    ctx.body = { ...ctx.body, issuer: switches.issuer };
  }
  const target = ctx.response.get('location') ?? '';
  if (switches.iss && target.includes('&iss=')) {
    ctx.set('location', target.replace(/&iss=[^&]*/, `&iss=${encodeURIComponent(switches.iss)}`));
  }
  if (ctx.path === '/token/revocation' && ctx.status === 200) {
    note('revoked');
  }
});

const escaped = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

function page(uid, title, fields) {
  return `<!doctype html><title>${title}</title><h1>${title}</h1><form method="post" action="/_page/${uid}">${fields}</form>`;
}

async function show(req, res, uid) {
  const { prompt, params } = await provider.interactionDetails(req, res);
  res.setHeader('content-type', 'text/html');
  if (prompt.name === 'login') {
    note('asked to sign in');
    res.end(page(uid, 'Sign in', '<input name="login"><button name="do" value="login">Sign in</button>'));
  } else {
    note('asked to agree', { scope: params.scope, resource: params.resource, missing: prompt.details });
    res.end(page(uid, 'Agree', `<p>${escaped(params.scope ?? '')}</p><button name="do" value="agree">Agree</button><button name="do" value="refuse">Refuse</button>`));
  }
}

async function submitted(req, res, form) {
  const { prompt: { details }, params, session, grantId } = await provider.interactionDetails(req, res);
  if (form.get('do') === 'login') {
    await provider.interactionFinished(req, res, { login: { accountId: form.get('login') } });
    return;
  }
  if (form.get('do') === 'refuse') {
    await provider.interactionFinished(req, res, { error: 'access_denied', error_description: 'the person said no' }, { mergeWithLastSubmission: false });
    return;
  }
  const grant = grantId
    ? await provider.Grant.find(grantId)
    : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  if (details.missingOIDCScope) grant.addOIDCScope(details.missingOIDCScope.join(' '));
  for (const [resource, scopes] of Object.entries(details.missingResourceScopes ?? {})) {
    grant.addResourceScope(resource, scopes.join(' '));
  }
  const saved = await grant.save();
  grants.add(saved);
  await provider.interactionFinished(req, res, { consent: { grantId: saved } });
}

async function body(req) {
  let text = '';
  for await (const chunk of req) text += chunk;
  return text;
}

function happened(url, res) {
  const what = url.searchParams.get('what');
  const answer = () => {
    const found = what ? events.filter((event) => event.what === what) : events;
    if (found.length < Number(url.searchParams.get('count') ?? 0)) return false;
    res.setHeader('content-type', 'application/json');
    res.end(JSON.stringify(found));
    return true;
  };
  if (!answer()) waiting.push(answer);
}

async function revokeAll() {
  for (const id of grants) {
    await provider.AccessToken.revokeByGrantId(id);
    await provider.RefreshToken.revokeByGrantId(id);
    await adapter('Grant').destroy(id);
  }
  grants.clear();
}

async function forgetClients() {
  for (const { client } of events.filter((event) => event.what === 'registered')) await adapter('Client').destroy(client);
}

function begin() {
  events = [];
  switches = {};
}

const controls = {
  _begin: begin,
  _switch: (text) => {
    switches = JSON.parse(text);
  },
  _revoke: revokeAll,
  _forget: forgetClients,
};
const callback = provider.callback();
server.on('request', async (req, res) => {
  const url = new URL(req.url, issuer);
  const [, first, uid] = url.pathname.split('/');
  try {
    if (first === '_page' && req.method === 'GET') await show(req, res, uid);
    else if (first === '_page') await submitted(req, res, new URLSearchParams(await body(req)));
    else if (first === '_events') happened(url, res);
    else if (first in controls) {
      await controls[first](await body(req));
      res.end();
    } else callback(req, res);
  } catch (error) {
    console.error(error);
    res.statusCode = 500;
    res.end(String(error));
  }
});
console.error(`issuer at ${issuer}`);
