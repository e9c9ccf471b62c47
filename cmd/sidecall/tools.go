package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	sidecall "github.com/sidecall/sidecall/clients/go"
	"github.com/sidecall/sidecall/internal/app"
	"github.com/sidecall/sidecall/internal/config"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// toolWriters print a tool list in each format of --format.
var toolWriters = map[string]func(io.Writer, *sidecallv1.ListToolsResponse) error{
	"table":            writeToolTable,
	"json":             writeToolJSON,
	"anthropic":        writeDefinitions,
	"openai":           writeDefinitions,
	"openai-responses": writeDefinitions,
}

// toolFormats are their names, for people.
const toolFormats = "table, json, anthropic, openai or openai-responses"

// asked is what sidecall tools asks for.
type asked struct {
	addr, config, format, profile string
	instructions                  bool
}

func newTools() *cobra.Command {
	var what asked
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List the tools, ready to hand to a provider, or how to teach a model to use them",
		Long: `List the tools of a running sidecar, or with --config those that a config file
declares, without starting anything.

  --format table             for people
  --format json              everything that is known of each tool
  --format anthropic         the tools parameter of the Anthropic Messages API
  --format openai            the tools parameter of OpenAI Chat Completions
  --format openai-responses  the tools parameter of OpenAI Responses

With --instructions it prints a paragraph for the system prompt instead: what the
model is to do about each code of an error, which tools must not be called again
on a guess, how a cut result is read on. It is made of the table of codes and of
these tools; rpc GetInstructions returns the same.

Backends whose tools are missing are told of on stderr. The exit code is 3 when
the sidecar cannot be reached, 2 when the config file or the profile is wrong.`,
		Example: `  sidecall tools --format anthropic
  sidecall tools --config sidecall.yaml --instructions --profile support >>system-prompt.txt`,
		Args: between(0, 0, "", ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := what.possible(cmd); err != nil {
				return fail(exitUsage, err)
			}
			if what.config != "" {
				return what.ofFile(cmd)
			}
			return withConnection(what.addr, func(client *sidecall.Client) error {
				return rpcErrorOf(what.addr, what.print(cmd, client.Stub()))
			})
		},
	}
	addrFlag(cmd, &what.addr)
	flags := cmd.Flags()
	flags.StringVarP(&what.config, "config", "c", "", "read a config file instead of asking a sidecar")
	flags.StringVar(&what.format, "format", "table", toolFormats)
	flags.BoolVar(&what.instructions, "instructions", false, "print the paragraph for the system prompt")
	flags.StringVar(&what.profile, "profile", "", "what this profile may call")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(slices.Sorted(maps.Keys(toolWriters)), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// possible refuses what contradicts itself.
func (a asked) possible(cmd *cobra.Command) error {
	_, known := toolWriters[a.format]
	switch given := cmd.Flags().Changed; {
	case !known:
		return fmt.Errorf("--format %q: want "+toolFormats, a.format)
	case given("config") && given("addr"):
		return errors.New("--config reads a file and --addr asks a sidecar: name one of them")
	case given("config") && a.config == "":
		return errors.New("--config: want the path of a config file")
	case given("format") && a.instructions:
		return errors.New("--instructions prints a paragraph, which has no --format")
	}
	return nil
}

// ofFile answers from a config file.
func (a asked) ofFile(cmd *cobra.Command) (err error) {
	cfg, err := unlessAsked(cmd.Context(), func() (*config.Config, error) { return config.Load(a.config) })
	if err != nil {
		return err
	}
	offer, err := app.NewOffer(cfg, buildVersion().Version)
	if err != nil {
		return fail(exitUsage, err)
	}
	defer func() { err = errors.Join(err, offer.Close(context.WithoutCancel(cmd.Context()))) }()
	return rpcErrorOf("", a.print(cmd, offer))
}

// rpcErrorOf is rpcError of a question that failed; another error stays.
func rpcErrorOf(addr string, err error) error {
	if _, ok := status.FromError(err); !ok || err == nil {
		return err
	}
	return rpcError(addr, lostList, err)
}

// answering is who knows the tools: a sidecar, or a file.
type answering interface {
	ListTools(ctx context.Context, req *sidecallv1.ListToolsRequest, opts ...grpc.CallOption) (*sidecallv1.ListToolsResponse, error)
	GetInstructions(ctx context.Context, req *sidecallv1.GetInstructionsRequest, opts ...grpc.CallOption) (*sidecallv1.GetInstructionsResponse, error)
}

// print asks, and prints what was asked for.
func (a asked) print(cmd *cobra.Command, of answering) error {
	if a.instructions {
		res, err := of.GetInstructions(cmd.Context(), &sidecallv1.GetInstructionsRequest{Profile: a.profile})
		if err != nil {
			return err
		}
		tellMissing(cmd.ErrOrStderr(), res.GetUnavailableBackends())
		_, err = io.WriteString(cmd.OutOrStdout(), res.GetText())
		return err
	}
	question := &sidecallv1.ListToolsRequest{Profile: a.profile}
	if a.format != "table" && a.format != "json" {
		question.Provider = a.format
	}
	res, err := listAll(cmd.Context(), of, question)
	if err != nil {
		return err
	}
	tellMissing(cmd.ErrOrStderr(), res.GetUnavailableBackends())
	return toolWriters[a.format](cmd.OutOrStdout(), res)
}

// tellMissing tells of the backends that are not there.
func tellMissing(errOut io.Writer, backends []*sidecallv1.UnavailableBackend) {
	for _, down := range backends {
		what := "is down"
		if down.GetUndiscovered() {
			what = "is not discovered yet, so its tools are missing here"
		}
		fmt.Fprintf(errOut, "sidecall: backend %s %s: %s\n", down.GetName(), what, down.GetReason())
	}
}

// listAll reads all pages of the list.
func listAll(ctx context.Context, of answering, question *sidecallv1.ListToolsRequest) (*sidecallv1.ListToolsResponse, error) {
	all := &sidecallv1.ListToolsResponse{}
	asked := map[string]bool{}
	for token := ""; ; {
		if asked[token] {
			return nil, fail(exitUnavailable, errors.New("the pages of the list go round in circles: what answers is no sidecar"))
		}
		asked[token] = true
		question.PageToken = token
		page, err := of.ListTools(ctx, question)
		if err != nil {
			return nil, err
		}
		all.Tools = append(all.Tools, page.GetTools()...)
		all.DefinitionsJson = append(all.DefinitionsJson, page.GetDefinitionsJson()...)
		all.UnavailableBackends = append(all.UnavailableBackends, page.GetUnavailableBackends()...)
		if token = page.GetNextPageToken(); token == "" {
			return all, nil
		}
	}
}

func writeToolTable(out io.Writer, res *sidecallv1.ListToolsResponse) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOOL\tEFFECT\tBACKEND\tDESCRIPTION")
	for _, t := range res.GetTools() {
		description, _, _ := strings.Cut(t.GetDescription(), "\n")
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.GetName(), effectName(t.GetEffect()), t.GetBackend(), description)
	}
	return w.Flush()
}

func effectName(e sidecallv1.Effect) string {
	return strings.ToLower(strings.TrimPrefix(e.String(), "EFFECT_"))
}

type listedTool struct {
	Name         string            `json:"name"`
	Description  string            `json:"description"`
	InputSchema  json.RawMessage   `json:"input_schema"`
	OutputSchema json.RawMessage   `json:"output_schema,omitempty"`
	Effect       string            `json:"effect"`
	Backend      string            `json:"backend"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	Definition   string            `json:"definition_hash,omitempty"`
}

func writeToolJSON(out io.Writer, res *sidecallv1.ListToolsResponse) error {
	list := make([]listedTool, 0, len(res.GetTools()))
	for _, t := range res.GetTools() {
		list = append(list, listedTool{
			Name: t.GetName(), Description: t.GetDescription(),
			InputSchema: json.RawMessage(t.GetInputSchemaJson()), OutputSchema: json.RawMessage(t.GetOutputSchemaJson()),
			Effect: effectName(t.GetEffect()), Backend: t.GetBackend(), Annotations: t.GetAnnotations(), Definition: t.GetDefinitionHash(),
		})
	}
	return writeIndented(out, list)
}

// writeDefinitions prints the tools as a provider takes them.
func writeDefinitions(out io.Writer, res *sidecallv1.ListToolsResponse) error {
	list := make([]json.RawMessage, 0, len(res.GetDefinitionsJson()))
	for _, definition := range res.GetDefinitionsJson() {
		list = append(list, json.RawMessage(definition))
	}
	return writeIndented(out, list)
}
