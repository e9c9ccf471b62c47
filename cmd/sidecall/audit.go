package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const auditHelp = `Read a random sample of conversations and count what became of errors: by tool, and by
error text, the worst first. The text of an error is what there is to improve.

  recovered  the same tool worked later in the same prompt
  gave up    the prompt ended without that
  open       neither: the prompt is not known to be over
  spun       the model was told the same of the same tool three times or more in a
             prompt, or the loop guard refused it; each is one of the three above too

The sample is of the conversations that AppendMessages keeps and that were appended to
in the time; each is read whole. Who gives the same --seed looks at the same ones, but
for those that have come or gone meanwhile.

Exit codes: 0 audited, whatever was found; 2 the command line is wrong; 3 the sidecar or
its store cannot be reached.`

// auditing is an audit command.
type auditing struct {
	operating

	since  ago
	sample int
	tool   string
	seed   int64
}

func newAudit() *cobra.Command {
	a := &auditing{operating: operating{lost: lostList}, since: ago{7 * 24 * time.Hour}}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Count what became of errors in a sample of conversations, the worst error texts first",
		Long:  auditHelp,
		Example: `  sidecall audit --since 7d --sample 50
  sidecall audit --since 7d --tool refund --seed 42 --json`,
		Args: between(0, 0, "", "a tool is named by --tool, a conversation is shown by sidecall conversations show ID"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.sample < 1 || a.sample > maxSample {
				return fail(exitUsage, fmt.Errorf("--sample %d: want 1 to %d conversations", a.sample, maxSample))
			}
			if !cmd.Flags().Changed("seed") {
				a.seed = rand.Int64N(1_000_000)
			}
			return a.run(cmd, a.audit)
		},
	}
	a.flags(cmd, "whose conversations to audit")
	flags := cmd.Flags()
	flags.Var(&a.since, "since", "conversations that were appended to in this time")
	flags.IntVar(&a.sample, "sample", 50, "how many of them to read")
	flags.StringVar(&a.tool, "tool", "", "count calls of this tool only")
	flags.Int64Var(&a.seed, "seed", 0, "pick the same as who gave the same seed; without it a random one, which is told")
	return cmd
}

// maxSample is the most conversations that a sidecar reads for one audit.
const maxSample = 10_000

func (a *auditing) audit() error {
	since := time.Now().Add(-a.since.Duration)
	res, err := a.client.Operator().AuditConversations(a.cmd.Context(), &sidecallv1.AuditConversationsRequest{
		Since: timestamppb.New(since), Sample: int32(a.sample), Seed: a.seed, ToolName: a.tool,
	})
	if err != nil {
		return a.failed(err)
	}
	if a.asJSON {
		return writeMessage(a.cmd.OutOrStdout(), res)
	}
	var b bytes.Buffer
	a.cover(&b, res, since)
	if res.GetSampled() > 0 {
		writeAudited(&b, res)
	}
	_, err = a.cmd.OutOrStdout().Write(b.Bytes())
	return err
}

// cover says what an audit covers, and what it does not.
func (a *auditing) cover(b *bytes.Buffer, res *sidecallv1.AuditConversationsResponse, since time.Time) {
	now := since.Add(a.since.Duration)
	paragraph(b, "", fmt.Sprintf("%d of %s that AppendMessages keeps and that were appended to since %s; --seed %d picks the same.",
		res.GetSampled(), tool.Count(int(res.GetFound()), "conversation"), instantOf(since), a.seed))
	if kept := res.GetConversationsKept().AsDuration(); kept > 0 && kept < a.since.Duration {
		paragraph(b, "", fmt.Sprintf("Only since %s, because conversations are kept for %s after their last message.", instantOf(now.Add(-kept)), spoken(kept)))
	}
	if kept := res.GetRecordsKept().AsDuration(); kept < a.since.Duration {
		paragraph(b, "", fmt.Sprintf("Calls that no message tells of only since %s, because records are kept for %s.", instantOf(now.Add(-kept)), spoken(kept)))
	}
	if n := res.GetUnreadable(); n > 0 {
		paragraph(b, "", fmt.Sprintf("%s left out: damaged, or gone meanwhile.", tool.Count(int(n), "conversation")))
	}
	if a.tool != "" {
		paragraph(b, "", "Calls of "+printable(a.tool)+" only.")
	}
}

func writeAudited(b *bytes.Buffer, res *sidecallv1.AuditConversationsResponse) {
	paragraph(b, "", fmt.Sprintf("%s, in %s.", sumOf(res.GetCounts()), tool.Count(int(res.GetPrompts()), "prompt")))
	paragraph(b, "", fmt.Sprintf("Of the calls %d have a record, of %d it is forgotten, and %d have none: they were refused before they were claimed, or are older.",
		res.GetRecorded(), res.GetForgotten(), res.GetUnrecorded()))
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nGAVE UP\tSPUN\tOPEN\tRECOVERED\tERRORS\tCALLS\tTOOL")
	for _, of := range res.GetTools() {
		c := of.GetCounts()
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%s\n", c.GetGaveUp(), c.GetSpun(), c.GetOpen(), c.GetRecovered(), c.GetErrors(), c.GetCalls(), printable(of.GetToolName()))
	}
	_ = w.Flush() // into memory
	left(b, res.GetToolsLeft(), "tool")
	for i, m := range res.GetMessages() {
		b.WriteByte('\n')
		c := m.GetCounts()
		paragraph(b, fmt.Sprintf("%3d. ", i+1), fmt.Sprintf("%s %s: %s, %d gave up, %d spun, %d open, %d recovered",
			printable(m.GetToolName()), codeOf(m.GetCode()), tool.Count(int(c.GetErrors()), "error"), c.GetGaveUp(), c.GetSpun(), c.GetOpen(), c.GetRecovered()))
		paragraph(b, "     ", m.GetExample())
		for _, why := range m.GetVague() {
			paragraph(b, "     vague: ", why)
		}
		var in []string
		for _, id := range m.GetConversationIds() {
			in = append(in, printable(id))
		}
		paragraph(b, "     in ", strings.Join(in, ", "))
	}
	left(b, res.GetMessagesLeft(), "error text")
	if len(res.GetMessages()) > 0 {
		fmt.Fprintln(b, "\nsidecall conversations show ID shows one of them as it went.")
	}
}

// left says how many of a list are not shown.
func left(b *bytes.Buffer, n int32, what string) {
	if n > 0 {
		fmt.Fprintf(b, "and %s more\n", tool.Count(int(n), what))
	}
}
