// fetch with the token of the signed-in user. If the server refuses the token, it tries once more with another one.
export function authorizedFetch(token) {
  return async (url, { headers, ...options } = {}) => {
    const attempt = async (jwt) => {
      const all = new Headers(headers);
      all.set("authorization", `Bearer ${jwt}`);
      return fetch(url, { ...options, headers: all });
    };
    const jwt = await token();
    const response = await attempt(jwt);
    return response.status === 401 ? attempt(await token(jwt)) : response;
  };
}

// Returns a function that executes a query or mutation. It answers the whole result, and throws if there is an error.
export function requests(url, token) {
  const send = authorizedFetch(token);
  return async (query, variables) => {
    const response = await send(url, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/graphql-response+json" },
      body: JSON.stringify({ query, variables }),
    });
    const result = await response.json();
    if (result.errors) throw Object.assign(new Error(result.errors[0].message), { errors: result.errors });
    return result;
  };
}
