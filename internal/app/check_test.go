package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/config"
)

// scenery is what the files of these tests refer to.
type scenery map[string]string

func (s scenery) Getenv(name string) (string, bool) { value, ok := s[name]; return value, ok }

func (s scenery) ReadFile(string) ([]byte, error) { return nil, os.ErrNotExist }

// checked is what Check finds in a text, beside what the file itself is told.
func checked(t *testing.T, text string) []config.Problem {
	t.Helper()
	cfg, known := config.ExamineText("sidecall.yaml", []byte(text), scenery{"TOKEN": "t0k3n", "PRIVATE": "http://10.0.0.1"})
	if cfg == nil {
		return known
	}
	return Check(t.Context(), cfg, known, CheckOptions{})
}

// of lists the findings of a rule, each as line:column: path.
func of(all []config.Problem, rule config.Rule) (places []string) {
	for _, p := range all {
		if p.Rule == rule {
			place, _, _ := strings.Cut(strings.TrimPrefix(p.Error(), "sidecall.yaml:"), ": "+p.Message)
			places = append(places, place)
		}
	}
	return places
}

const aBackend = `backends: {up: {http: {base_url: "http://shop.example.com"}}, sh: {exec: {env: [PATH]}}}
tools:
  look: {backend: up, description: l, http: {method: GET, path: "/l/{id}"}, input_schema: {type: object, properties: {id: {type: string}}, required: [id], additionalProperties: false}}
`

// Every rule finds what it is for, with its place, and does not find what is
// next to it. Line 4 is the first of each case that begins with aBackend.
func TestEveryRule(t *testing.T) {
	cases := map[config.Rule][]struct {
		text string
		want string // places, with | between
	}{
		config.RuleSyntax:     {{"a: [", "2:1"}, {"", "1:1"}, {"{}", ""}},
		config.RuleUnknownKey: {{"retentoin: 1h", "1:1: retentoin"}, {"retention: 1h", ""}},
		config.RuleValue:      {{"lease: soon", "1:8: lease"}, {"lease: 10s", ""}},
		config.RuleReference:  {{`admin: "${env:NOT_SET}"`, "1:8: admin"}},
		config.RuleObserve:    {{"profiles: {code: {mode: observe}}\ndefault_profile: code", "1:25: profiles.code.mode"}, {"profiles: {code: {}}\ndefault_profile: code", ""}},
		config.RuleConflict:   {{"default_profile: nobody", "1:18: default_profile"}, {"default_profile: code", ""}},
		config.RuleBackend: {
			{`backends: {up: {http: {base_url: "https://a.example.com", tls: {ca: /no/such/ca.pem}}}}`, "1:23: backends.up.http"},
			{`store: {redis: {addrs: ["127.0.0.1:1"], tls: {ca: /no/such/ca.pem}}}`, "1:46: store.redis.tls"},
		},
		config.RuleRequest: {{aBackend + `  a: {backend: up, http: {method: GET, path: "/a/../b"}}`, "4:26: tools.a.http"}},
		config.RuleSchema: {
			{aBackend + `  a: {backend: sh, exec: {argv: [ls]}, input_schema: {type: objekt}}`, "4:61: tools.a.input_schema.type"},
			{aBackend + `  a: {backend: sh, exec: {argv: [ls]}, output_schema: {type: objekt}}`, "4:62: tools.a.output_schema.type"},
		},
		config.RuleSchemaKeyword: {
			{aBackend + `  a: {backend: sh, exec: {argv: [ls]}, input_schema: {propertys: {}}}`, "4:55: tools.a.input_schema.propertys"},
			{aBackend + `  a: {backend: sh, exec: {argv: [ls]}, input_schema: {requird: [a]}}`, "4:55: tools.a.input_schema.requird"},
			{aBackend + "  a:\n    backend: sh\n    exec: {argv: [ls]}\n    input_schema:\n      properties:\n        s:\n          minlength: 3\n", "10:11: tools.a.input_schema.properties.s.minlength"},
			{aBackend + `  a: {backend: sh, exec: {argv: [ls]}, output_schema: {properties: {s: {tpye: string}}}}`, "4:73: tools.a.output_schema.properties.s.tpye"},
			{aBackend + `  a: {backend: sh, exec: {argv: [ls]}, input_schema: {x-propertys: {}, widget: text, properties: {propertys: {}, requird: {}}}}`, ""},
		},
		config.RuleExpression: {{aBackend + `  a: {backend: sh, exec: {argv: [ls]}, empty_when: "size("}`, "4:52: tools.a.empty_when"}},
		config.RuleArgument: {
			{aBackend + `  a: {backend: up, http: {method: GET, path: "/a/{idd}"}, input_schema: {properties: {id: {}}, additionalProperties: false}}`, "4:46: tools.a.http.path"},
			{aBackend + `  a: {backend: up, http: {method: POST, path: /a, body: {n: nr}}, input_schema: {properties: {no: {}}, additionalProperties: false}}`, "4:61: tools.a.http.body.n"},
			{aBackend + `  a: {backend: up, http: {method: POST, path: /a, body: nr}, input_schema: {properties: {no: {}}, additionalProperties: false}}`, "4:57: tools.a.http.body"},
			{aBackend + `  a: {backend: up, http: {method: GET, path: /a, query: {n: nr}}, input_schema: {properties: {no: {}}, additionalProperties: false}}`, "4:61: tools.a.http.query.n"},
			{aBackend + `  a: {backend: up, http: {method: GET, path: /a, headers: {X-N: nr}}, input_schema: {properties: {no: {}}, additionalProperties: false}}`, "4:65: tools.a.http.headers.X-N"},
			{aBackend + `  a: {backend: sh, exec: {argv: [ls]}, verify: {tool: look, args: {idd: "'x'", id: "'y'"}, done_when: "true"}}`, "4:73: tools.a.verify.args.idd"},
			{aBackend + `  a: {backend: sh, exec: {argv: [ls]}, verify: {tool: look, args: {}, done_when: "true"}}`, "4:67: tools.a.verify.args"},
			{
				aBackend + `  a: {backend: sh, exec: {argv: [ls]}, verify: {tool: look, args: {id: args.nr}, done_when: "result.id == args.nr"}, input_schema: {properties: {no: {}}, additionalProperties: false}}`,
				"4:72: tools.a.verify.args.id|4:93: tools.a.verify.done_when",
			},
			{aBackend + `  a: {backend: sh, exec: {argv: [ls]}, verify: {tool: look, args: {id: args.no}, done_when: "has(args.nr) && args.nr == 'args.nx'"}, input_schema: {properties: {no: {}}, additionalProperties: false}}`, ""},
			{aBackend + `  a: {backend: up, http: {method: GET, path: "/a/{id}"}, input_schema: {properties: {no: {}}}}`, "4:46: tools.a.http.path"}, // refused, though not by the schema
			{aBackend + `  a: {backend: up, forward_undeclared: true, http: {method: GET, path: "/a/{id}"}, input_schema: {properties: {no: {}}}}`, ""},
			{aBackend + `  a: {backend: up, http: {method: GET, path: "/a/{id}"}}`, ""},                                                                   // it names none
			{aBackend + `  a: {backend: up, http: {method: GET, path: "/a/{id}"}, input_schema: {properties: {no: {}}, additionalProperties: true}}`, ""}, // it can have it
		},

		config.RuleArgumentUndeclared: {
			{aBackend + `  a: {backend: up, http: {method: GET, path: "/a/{id}"}, input_schema: {properties: {no: {}}, additionalProperties: true}}`, "4:46: tools.a.http.path"},
			{aBackend + `  a: {backend: up, http: {method: GET, path: "/a/{id}"}, input_schema: {additionalProperties: {}}}`, ""},
		},
		config.RuleArgumentOptional: {
			{aBackend + `  a: {backend: up, http: {method: GET, path: "/a/{id}"}, input_schema: {properties: {id: {}}}}`, "4:46: tools.a.http.path"},
			{aBackend, ""},
		},
		config.RuleArgumentUnsent: {
			{aBackend + `  a: {backend: up, http: {method: POST, path: /a, body: {}}, input_schema: {properties: {id: {}}}}`, "4:26: tools.a.http"},
			{aBackend + `  a: {backend: up, http: {method: POST, path: /a}, input_schema: {properties: {id: {}}}}`, ""},
		},
		config.RuleOpenSchema: {
			{aBackend + `  a: {backend: sh, exec: {argv: [ls]}, input_schema: {properties: {id: {}}, additionalProperties: true}}`, "4:54: tools.a.input_schema"},
			{aBackend + `  a: {backend: sh, forward_undeclared: true, exec: {argv: [ls]}, input_schema: {properties: {id: {}}}}`, "4:80: tools.a.input_schema"},
			{aBackend + `  a: {backend: sh, exec: {argv: [ls]}, input_schema: {properties: {id: {}}}}`, "4:54: tools.a.input_schema"},
			{aBackend + `  a: {backend: sh, exec: {argv: [ls]}}`, "4:6: tools.a"},
			{aBackend + `  a: {backend: sh, effect: read_only, exec: {argv: [ls]}}`, ""},
			{aBackend + `  a: {backend: sh, exec: {argv: [ls]}, input_schema: {properties: {id: {}}, unevaluatedProperties: false}}`, ""},
		},
		config.RuleEffectKey: {
			{aBackend + `  pay: {backend: sh, exec: {argv: [ls]}, input_schema: {properties: {orderId: {}, cents: {}, note: {}}, required: [orderId, cents, note]}}`, "4:8: tools.pay"},
			{aBackend + `  pay: {backend: sh, exec: {argv: [ls]}, effect_key: {args: [orderId]}, input_schema: {properties: {orderId: {}}, required: [orderId]}}`, ""},
			{aBackend + `  pay: {backend: sh, effect: keyed, exec: {argv: [ls]}, input_schema: {properties: {orderId: {}}, required: [orderId]}}`, ""},
			{aBackend + `  say: {backend: sh, exec: {argv: [ls]}, input_schema: {properties: {order_id: {}, idea: {}, amount: {}}, required: [idea, amount]}}`, ""},
		},
		config.RulePolling: {
			{aBackend + `  job_status: {backend: sh, effect: read_only, exec: {argv: [ls]}}`, "4:15: tools.job_status"},
			{aBackend + `  job_status: {backend: sh, effect: read_only, polling: true, exec: {argv: [ls]}}`, ""},
			{aBackend + `  job: {backend: sh, effect: read_only, exec: {argv: [ls]}}`, ""},
		},
		config.RuleExecutable: {
			{aBackend + `  a: {backend: sh, exec: {argv: [no-such-program]}}`, "4:34: tools.a.exec.argv[0]"},
			{`backends: {m: {mcp: {command: [/no/such/server]}}}`, "1:32: backends.m.mcp.command[0]"},
			{aBackend + `  a: {backend: sh, exec: {argv: [ls]}}`, ""},
		},
		config.RuleDirectory: {
			{`backends: {m: {mcp: {command: [ls], dir: /no/such}}, sh: {exec: {dir: /no/such}}}`, "1:42: backends.m.mcp.dir|1:71: backends.sh.exec.dir"},
			{`store: {embedded: {path: /no/such/sidecall.db}}`, "1:26: store.embedded.path"},
			{`listen: ["unix:///no/such/s.sock", {address: "unix:///no/such/t.sock"}, "unix:///s.sock"]`, "1:10: listen[0]|1:36: listen[1]"},
			{`operator: unix:///no/such/o.sock`, "1:11: operator"},
			{`backends: {sh: {exec: {dir: /}}}`, ""},
		},
		config.RulePrivateAddress: {
			{`backends: {a: {http: {base_url: "http://127.0.0.1:1"}}, b: {http: {base_url: "http://localhost"}}}`, "1:33: backends.a.http.base_url|1:78: backends.b.http.base_url"},
			{`backends: {a: {http: {base_url: "http://[fd00::1]"}}, b: {mcp: {url: "http://10.1.2.3/mcp"}}}`, "1:33: backends.a.http.base_url|1:70: backends.b.mcp.url"},
			{`backends: {a: {http: {base_url: "http://169.254.169.254", allow_private: true}}}`, "1:33: backends.a.http.base_url"},
			{`backends: {a: {http: {base_url: "${env:PRIVATE}"}}}`, "1:33: backends.a.http.base_url"},
			{`backends: {a: {http: {base_url: "http://127.0.0.1", allow_private: true}}, b: {http: {base_url: "http://a.example.com"}}}`, ""},
		},
		config.RuleWorkerAddress: {
			{"backends: {w: {worker: {}}}", "1:24: backends.w.worker"},
			{"backends: {w: {worker: {}}}\nlisten: [unix:///run/w/s.sock, tcp://127.0.0.1:1]", "1:24: backends.w.worker"},
			{"backends: {w: {worker: {}}}\nlisten: [unix:///run/w/s.sock]", ""},
		},
		config.RuleTLSUnverified: {
			{`backends: {a: {http: {base_url: "https://a.example.com", tls: {insecure_skip_verify: true}}}}`, "1:86: backends.a.http.tls.insecure_skip_verify"},
			{`store: {redis: {addrs: ["127.0.0.1:1"], tls: {insecure_skip_verify: true}}}`, "1:69: store.redis.tls.insecure_skip_verify"},
		},
		config.RuleCleartext: {
			{`store: {redis: {addrs: ["127.0.0.1:1", "redis:6379"], password: "${env:TOKEN}"}}`, "1:40: store.redis.addrs[1]"},
			{`store: {redis: {addrs: ["10.0.0.1:1"], master_name: m, sentinel_password: "${env:TOKEN}"}}`, "1:25: store.redis.addrs[0]"},
			{`store: {redis: {addrs: ["redis:6379"], password: "${env:TOKEN}", tls: {enabled: false}}}`, "1:25: store.redis.addrs[0]"},
			{`store: {redis: {addrs: ["redis:6379"], password: "${env:TOKEN}", tls: {enabled: true}}}`, ""},
			{`store: {redis: {addrs: ["localhost:6379", "[::1]:1", "127.0.0.2:1"], password: "${env:TOKEN}"}}`, ""},
			{`store: {redis: {addrs: ["redis:6379"]}}`, ""},
		},
		config.RuleLiteralSecret: {
			{`backends: {a: {http: {base_url: "https://a.example.com", headers: {Authorization: Bearer x, Accept: a}, proxy: "http://u:p@p.example.com"}}}`, "1:83: backends.a.http.headers.Authorization|1:112: backends.a.http.proxy"},
			{`backends: {a: {mcp: {url: "https://a.example.com/mcp?api_key=1", headers: {X-Api-Key: x}}}, b: {mcp: {command: [ls], env: {A_TOKEN: x, LANG: C}}}}`, "1:27: backends.a.mcp.url|1:87: backends.a.mcp.headers.X-Api-Key|1:133: backends.b.mcp.env.A_TOKEN"},
			{`store: {redis: {addrs: ["127.0.0.1:1"], password: hunter2}}`, "1:51: store.redis.password"},
			{`backends: {sh: {exec: {env: {A_TOKEN: x}}}}`, "1:39: backends.sh.exec.env.A_TOKEN"},
			{`backends: {a: {http: {base_url: "https://a.example.com", headers: {Authorization: "Bearer ${env:TOKEN}"}}}}`, ""},
		},
		config.RuleAlternative: {
			{aBackend + `  a: {backend: sh, effect: read_only, exec: {argv: [ls]}, errors: [{when: "true", code: NOT_FOUND, allowed_alternatives: [look, b]}]}` + "\n  b: {backend: sh, exec: {argv: [ls]}}", "4:129: tools.a.errors[0].allowed_alternatives[1]"},
		},
		config.RuleVerify: {{aBackend + `  a: {backend: sh, effect: idempotent, exec: {argv: [ls]}, verify: {tool: look, args: {id: "'x'"}, done_when: "true"}}`, "4:68: tools.a.verify"}},
		config.RuleUnknownName: {
			{aBackend + `  a: {backend: sh, exec: {argv: [ls]}, verify_with: loook}`, "4:53: tools.a.verify_with"},
			{"profiles: {p: {tools: [nothing_*]}}", "1:24: profiles.p.tools[0]"},
		},
		config.RuleUnused:      {{"backends: {sh: {exec: {}}}", "1:16: backends.sh"}, {"{}", "1:1"}},
		config.RuleDoubtful:    {{aBackend + `  a: {backend: sh, exec: {argv: [ls]}, attempt_timeout: 9s, deadline: 1s}`, "4:57: tools.a.attempt_timeout"}},
		config.RuleDescription: {{aBackend + `  a: {backend: sh, exec: {argv: [ls]}}`, "4:6: tools.a"}},
		config.RuleStrictMode:  {{aBackend + `  a: {backend: sh, exec: {argv: [ls]}, input_schema: {minProperties: 1}}`, "4:54: tools.a.input_schema"}},

		config.RuleUndiscovered: {{`backends: {m: {mcp: {command: [ls]}}}` + "\nprofiles: {p: {tools: [m_*]}}", "2:24: profiles.p.tools[0]"}},
		config.RuleEffectUnsaid: {
			{`backends: {m: {mcp: {command: [ls]}}}`, "1:15: backends.m"},
			{`backends: {m: {mcp: {command: [ls]}, effects: {a: read_only}}, n: {mcp: {command: [ls], trust_annotations: true}}}`, ""},
			{`backends: {a: {worker: {}}, b: {worker: {trust_effects: false}}, c: {worker: {trust_effects: false}, effects: {"*": keyed}}}`, "1:32: backends.b"},
		},
		config.RuleRejections: {
			{aBackend + `  a: {backend: up, http: {method: POST, path: /a}}`, "4:6: tools.a"},
			{aBackend + `  a: {backend: up, http: {method: POST, path: /a}, rejects_before_work: [429, 503]}`, ""},
			{aBackend + `  a: {backend: up, http: {method: POST, path: /a}, rejects_before_work: []}`, ""},
			{aBackend + `  a: {backend: up, http: {method: POST, path: /a}, verify: {tool: look, args: {id: "'x'"}, done_when: "true"}}`, ""},
			{aBackend + `  a: {backend: up, effect: read_only, http: {method: POST, path: /a}}`, ""},
			{aBackend + `  a: {backend: sh, exec: {argv: [ls]}}`, ""},
		},
		config.RuleExposed: {}, // TestFilesThatOthersMayReadOrWriteAreNamed has these
		// TestWhatDiscoveryFinds has these.
		config.RuleEffect: {}, config.RuleDiscovery: {}, config.RuleUnmatched: {},
	}
	for _, rule := range config.Rules() {
		if _, ok := cases[rule.Rule]; !ok {
			t.Errorf("no case of %s", rule.Rule)
		}
		for _, c := range cases[rule.Rule] {
			all := checked(t, c.text)
			if got := strings.Join(of(all, rule.Rule), "|"); got != c.want {
				t.Errorf("%s of\n%s\nis found at %q, want %q, of %v", rule.Rule, c.text, got, c.want, config.Problems(all))
			}
			_, err := config.Parse("sidecall.yaml", []byte(c.text), scenery{"TOKEN": "t0k3n", "PRIVATE": "http://10.0.0.1"})
			if started := err == nil && starts(t, c.text); rule.Severity == config.Wrong && c.want != "" && started {
				t.Errorf("a start takes what check calls wrong: %s", c.text)
			}
		}
	}
}

// Of a path that is relative it is said where it was looked for.
func TestRelativePathsAreSaidWhole(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	for _, p := range checked(t, `store: {embedded: {path: data/sidecall.db}}
backends: {m: {mcp: {command: [.venv/bin/python]}}, n: {mcp: {command: [/no/such/server], dir: tools}}, sh: {exec: {dir: /no/such}}}
`) {
		if p.Rule != config.RuleDirectory && p.Rule != config.RuleExecutable {
			continue
		}
		if absolute := strings.Contains(p.Message, "/no/such"); strings.Contains(p.Message, here) == absolute {
			t.Errorf("%v", p)
		}
	}
}

func starts(t *testing.T, text string) bool {
	t.Helper()
	cfg, _ := config.ExamineText("sidecall.yaml", []byte(text), scenery{"TOKEN": "t0k3n", "PRIVATE": "http://10.0.0.1"})
	g, err := newGeneration(cfg, surroundings{logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = g.close(t.Context())
	}
	return err == nil
}

// Nothing hides anything else: not an unknown key the backend that cannot be
// built, nor that the schema and expressions of its tools, nor any of them what
// only may hurt. Only what follows from a problem is not told again.
func TestAllFindingsOfAllPhasesInOneRun(t *testing.T) {
	all := checked(t, `retentoin: 1h
backends:
  up: {http: {base_url: "https://a.example.com", tls: {ca: /no/such/ca.pem}, headers: {Cookie: x}}}
  bad: {http: {base_url: "ftp://a"}}
  none: {}
  sh: {exec: {dir: /no/such}}
tools:
  a:
    backend: up
    efect: read_only
    http: {method: GET, path: "/a/{idd}"}
    empty_when: "size("
    input_schema: {properties: {id: {type: integr, minlength: 3}}, additionalProperties: false}
  b: {backend: nowhere, exec: {argv: [ls]}, input_schema: {type: 7}}
  c: {backend: up, exec: {argv: [ls]}, input_schema: {requird: [a]}}
  d: {backend: none, http: {method: GET}, errors: [{code: NOT_FOUND}]}
  e: {backend: bad, http: {method: GET, path: "/e/{x"}, empty_when: "nope"}
`)
	want := []string{
		"1:1: retentoin unknown-key", "3:14: backends.up.http backend", "3:96: backends.up.http.headers.Cookie literal-secret",
		"4:26: backends.bad.http.base_url value", "5:9: backends.none value", "6:7: backends.sh unused", "6:20: backends.sh.exec.dir directory",
		"8:3: tools.a description", "10:5: tools.a.efect unknown-key", "11:31: tools.a.http.path argument", "12:17: tools.a.empty_when expression",
		"13:44: tools.a.input_schema.properties.id.type schema", "13:52: tools.a.input_schema.properties.id.minlength schema-keyword",
		"14:6: tools.b description", "14:16: tools.b.backend conflict", "14:66: tools.b.input_schema.type schema", "14:59: tools.b.input_schema open-schema",
		"15:6: tools.c description", "15:26: tools.c.exec conflict", "15:54: tools.c.input_schema open-schema", "15:55: tools.c.input_schema.requird schema-keyword",
		"16:6: tools.d description", "16:28: tools.d.http value", "16:52: tools.d.errors[0] value",
		"17:6: tools.e description", "17:47: tools.e.http.path value", "17:69: tools.e.empty_when expression",
	}
	var got []string
	for _, p := range all {
		place, _, _ := strings.Cut(strings.TrimPrefix(p.Error(), "sidecall.yaml:"), ": "+p.Message)
		got = append(got, place+" "+string(p.Rule))
	}
	for _, one := range want {
		if !slices.Contains(got, one) {
			t.Errorf("not found: %s", one)
		}
	}
	for _, one := range got {
		if !slices.Contains(want, one) {
			t.Errorf("found: %s", one)
		}
	}
	if !slices.IsSortedFunc(all, func(a, b config.Problem) int { return a.Line - b.Line }) {
		t.Error("not by position")
	}
}

// Whatever is wrong with a file, what is right in it can be looked at.
func TestNoWrongFileBreaksTheCheck(t *testing.T) {
	files, err := filepath.Glob("../config/testdata/*/*.yaml")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all := checked(t, string(text))
		if filepath.Base(filepath.Dir(file)) == "bad" && !slices.ContainsFunc(all, func(p config.Problem) bool { return p.Severity() == config.Wrong }) {
			t.Errorf("%s: nothing is wrong", file)
		}
		for _, p := range all {
			if p.Rule == "" {
				t.Errorf("%s: without a rule: %v", file, p)
			}
		}
	}
}

// There is no bound to what check finds, as there is to what a start tells.
func TestCheckFindsMoreThanAStartTells(t *testing.T) {
	var text strings.Builder
	for range config.MaxProblems + 30 {
		text.WriteString("nosuchkey_" + strings.Repeat("x", text.Len()%50) + strings.Repeat("y", text.Len()/50) + ": 1\n")
	}
	if found := of(checked(t, text.String()), config.RuleUnknownKey); len(found) != config.MaxProblems+30 {
		t.Errorf("%d found", len(found))
	}
}
