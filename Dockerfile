FROM python:3.13-slim AS build
WORKDIR /src
RUN python -m venv /opt/confab
# Dependencies first: they change less often than the code.
COPY pyproject.toml constraints.txt README.md ./
RUN /opt/confab/bin/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" > requirements.txt \
    && /opt/confab/bin/pip install --no-cache-dir -c constraints.txt -r requirements.txt
COPY resolvers resolvers
COPY schema schema
COPY server server
COPY store store
COPY subscriptions subscriptions
RUN /opt/confab/bin/pip install --no-cache-dir -c constraints.txt .

FROM python:3.13-slim
RUN useradd --system --no-create-home confab
COPY --from=build /opt/confab /opt/confab
ENV PATH=/opt/confab/bin:$PATH PYTHONUNBUFFERED=1 CONFAB_HOST=0.0.0.0
USER confab
EXPOSE 8000
CMD ["confab", "serve"]
