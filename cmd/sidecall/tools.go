package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// toolWriters print a tool list in each format of --format.
var toolWriters = map[string]func(io.Writer, *sidecallv1.ListToolsResponse) error{
	"table":     writeToolTable,
	"json":      writeToolJSON,
	"anthropic": writeAnthropicTools,
	"openai":    writeOpenAITools,
}

func newTools() *cobra.Command {
	var addr, format, profile string
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List the tools of a running sidecar, ready to hand to a provider",
		Long: `List the tools of a running sidecar.

  --format table      for people
  --format json       everything that is known of each tool
  --format anthropic  the tools parameter of the Anthropic Messages API
  --format openai     the tools parameter of OpenAI Chat Completions`,
		Args: between(0, 0, "", ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := toolWriters[format]
			if !ok {
				return fail(exitUsage, fmt.Errorf("--format %q: want table, json, anthropic or openai", format))
			}
			return withClient(addr, func(client sidecallv1.ToolServiceClient) error {
				res, err := listAll(cmd.Context(), client, profile)
				if err != nil {
					return rpcError(addr, lostList, err)
				}
				for _, down := range res.GetUnavailableBackends() {
					what := "is down"
					if down.GetUndiscovered() {
						what = "is not discovered yet, so its tools are missing here"
					}
					fmt.Fprintf(cmd.ErrOrStderr(), "sidecall: backend %s %s: %s\n", down.GetName(), what, down.GetReason())
				}
				return write(cmd.OutOrStdout(), res)
			})
		},
	}
	addrFlag(cmd, &addr)
	cmd.Flags().StringVar(&format, "format", "table", "table, json, anthropic or openai")
	cmd.Flags().StringVar(&profile, "profile", "", "list what this profile may call")
	return cmd
}

// listAll reads all pages of the list.
func listAll(ctx context.Context, client sidecallv1.ToolServiceClient, profile string) (*sidecallv1.ListToolsResponse, error) {
	all := &sidecallv1.ListToolsResponse{}
	for token := ""; ; {
		page, err := client.ListTools(ctx, &sidecallv1.ListToolsRequest{Profile: profile, PageToken: token})
		if err != nil {
			return nil, err
		}
		all.Tools = append(all.Tools, page.GetTools()...)
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

type anthropicTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

func writeAnthropicTools(out io.Writer, res *sidecallv1.ListToolsResponse) error {
	list := make([]anthropicTool, 0, len(res.GetTools()))
	for _, t := range res.GetTools() {
		list = append(list, anthropicTool{t.GetName(), t.GetDescription(), json.RawMessage(t.GetInputSchemaJson())})
	}
	return writeIndented(out, list)
}

type openAITool struct {
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
}

type openAIFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

func writeOpenAITools(out io.Writer, res *sidecallv1.ListToolsResponse) error {
	list := make([]openAITool, 0, len(res.GetTools()))
	for _, t := range res.GetTools() {
		list = append(list, openAITool{"function", openAIFunction{t.GetName(), t.GetDescription(), json.RawMessage(t.GetInputSchemaJson())}})
	}
	return writeIndented(out, list)
}
