package variants

// proxies are slips in what is compiled for the proxies, on the way to them and in the proxy.
var proxies = []variant{
	{
		name: "a prefix is one of the path's text and not of its elements",
		file: "internal/routing/table/paths.go",
		from: "!c.exact && rest[0] == '/'",
		to:   "!c.exact",
		in:   "./internal/routing/table", tests: "TestPaths", say: "/aaa/bbbxyz: got web r /aaa/bbb, want web 404",
	},
	{
		name: "of two who claim a path the newest wins",
		file: "internal/routing/host.go",
		from: "cmp.Compare(a.Created, b.Created)",
		to:   "cmp.Compare(b.Created, a.Created)",
		in:   "./internal/routing", tests: "TestGolden", say: "--- FAIL: TestGolden/conflict",
	},
	{
		name: "where all endpoints are left out for their failures none is chosen",
		file: "internal/proxy/balance/inturn.go",
		from: "\t\tcase out < 0:\n",
		to:   "\t\tcase false:\n",
		in:   "./internal/proxy/balance", tests: "TestEjectionNeverEmpties", say: "--- FAIL: TestEjectionNeverEmpties",
	},
	{
		name: "a POST is tried again after it was written",
		file: "internal/proxy/balance/retry.go",
		from: "Repeatable(t.Method) && ",
		to:   "",
		in:   "./internal/proxy/balance", tests: "TestAgain", say: "POST: 2, want 0",
	},
	{
		name: "two pods that had an address one after the other share connections",
		file: "internal/proxy/upstream/upstream.go",
		from: "\tp := s.byKey[k]\n",
		to:   "\tk.UID = \"\"\n\tp := s.byKey[k]\n",
		in:   "./internal/proxy/upstream", tests: "TestClose", say: "two pods share a pool",
	},
	{
		name: "what is told beside what a proxy refuses is not used",
		file: "internal/routing/table/apply.go",
		from: "refused = append(refused, Refusal{wire.NameOf(r), err})\n",
		to:   "return Result{Table: t, Refused: append(refused, Refusal{wire.NameOf(r), err})}\n",
		in:   "./internal/routing/table", tests: "TestRefused", say: "want the route that came with it",
	},
	{
		name: "proxies are sent the Secrets of another class",
		file: "internal/routing/engine.go",
		from: "if t.set == set {",
		to:   "if t.set == set || p.resource.Certificate != nil {",
		in:   "./internal/routing", tests: "TestSecretsOfAClass", say: "the proxies of ingress/other are told the certificates",
	},
	{
		name: "what others wrote into an Ingress's status is overwritten",
		file: "internal/routing/status.go",
		from: "append(out.LoadBalancer, others...)",
		to:   "append(out.LoadBalancer, others[:0]...)",
		in:   "./internal/routing", tests: "TestMerge", say: "a foreign one stays (-want +got)",
	},
	{
		name: "every client is believed where nobody is named to be trusted",
		file: "internal/proxy/options.go",
		from: "\treturn false\n",
		to:   "\treturn len(o.Trusted) == 0\n",
		in:   "./internal/proxy", tests: "TestRequest", say: "X-Forwarded-For: 192.0.2.7",
	},
	{
		name: "a route is used before the endpoints of its backend are there",
		file: "internal/routing/table/apply.go",
		from: "case !e.endpoints.has(name):",
		to:   "case false:",
		in:   "./internal/routing/table", tests: "TestLateBackend", say: "want that the route is refused",
	},
	{
		name: "a request that has a length and chunks is read by the chunks",
		file: "internal/proxy/downstream/head.go",
		from: "case h.framing == message.Chunked && (h.length >= 0 || h.minor == 0):",
		to:   "case false:",
		in:   "./internal/proxy/downstream", tests: "TestHeads", say: "Transfer-Encoding: chunked\\r\\n\\r\\n\" is {",
	},
}
