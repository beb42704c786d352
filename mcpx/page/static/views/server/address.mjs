// Addresses of one server: places on this page, and what is asked of the daemon.
const encoded = (parts) => parts.map(encodeURIComponent).join("/");

export const place = (name, ...rest) => `#/servers/${encoded([name, ...rest])}`;
export const request = (name, ...rest) => `/servers/${encoded([name, ...rest])}`;
