# The libraries of the GraphiQL page, served by Confab itself. Without them the page takes the same files from a CDN, so
# nothing here ever fails. A try that failed is repeated when the lock file changes, or by: make -B graphiql-assets
#
# Use: include web/graphiql.mk, and name graphiql-assets as an order-only prerequisite of run.

GRAPHIQL_TRIED := server/static/graphiql/.tried

.PHONY: graphiql-assets
graphiql-assets: $(GRAPHIQL_TRIED)

$(GRAPHIQL_TRIED): web/package-lock.json web/graphiql.mjs server/pages/graphiql/assets.json
	@if ! command -v npm >/dev/null 2>&1; then \
		echo "GraphiQL: npm is not installed, so browsers load its libraries from a CDN."; \
	else \
		echo "GraphiQL: fetching its libraries with npm"; \
		mkdir -p $(@D) && touch $@; \
		node web/graphiql.mjs \
		|| echo "GraphiQL: that did not work, so browsers load its libraries from a CDN (make -B graphiql-assets tries again)."; \
	fi
