# The pages for browsers, built with npm into server/static. Without npm, or where that fails, a page says what to do, and all else
# works: nothing here ever fails. A try that failed, or was cut off, is repeated when a source changes, or by: make web
#
# Use: include web/web.mk, and name web as an order-only prerequisite.

WEB_SOURCES := $(shell find web -type f -not -path '*/node_modules/*' -not -path 'web/tests/*')
WEB_INSTALLED := web/node_modules/.installed
WEB_TRIED := server/static/.tried
WEB_BUILT := server/static/.built
WEB_NODE := const [major] = process.versions.node.split("."); process.exit(major >= 20 ? 0 : 1)
WEB_LOG := server/static/.build.log

.PHONY: web
web: $(WEB_TRIED)

ifneq ($(filter web,$(MAKECMDGOALS)),)
ifeq ($(wildcard $(WEB_BUILT)),)
.PHONY: $(WEB_TRIED)
endif
endif

$(WEB_TRIED): $(WEB_SOURCES)
	@mkdir -p $(@D)
	@if ! command -v npm >/dev/null 2>&1 || ! node -e '$(WEB_NODE)'; then \
		echo "Pages for browsers: they need Node.js 20 or newer with npm, which is not here, so there are none."; \
	else \
		touch $@; rm -f $(WEB_BUILT); \
		{ test $(WEB_INSTALLED) -nt web/package-lock.json || { \
			echo "Pages for browsers: fetching what they are built with (once)"; \
			(cd web && npm ci --no-progress) > $(WEB_LOG) 2>&1 && touch $(WEB_INSTALLED); }; } \
		&& echo "Pages for browsers: building" \
		&& (cd web && npm run build) > $(WEB_LOG) 2>&1 && touch $(WEB_BUILT) \
		|| echo "Pages for browsers: that did not work; $(WEB_LOG) says why (make web tries again)."; \
	fi
