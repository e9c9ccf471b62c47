package app

import (
	"context"
	"errors"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/notify"
	"github.com/sidecall/sidecall/internal/telemetry"
)

// newNotifier makes what tells the webhook of a config; nil where it names none.
func newNotifier(cfg *config.Config, t *telemetry.Telemetry) (*notify.Notifier, error) {
	if cfg.Notify.URL.Reveal() == "" {
		return nil, nil
	}
	options := notify.Options{URL: cfg.Notify.URL.Reveal(), Secret: cfg.Notify.Key(), Log: t.Logger}
	for _, kind := range cfg.Notify.Kinds() {
		options.Kinds = append(options.Kinds, map[string]notify.Kind{"unknown": notify.Unknown, "held": notify.Held}[kind])
	}
	n := notify.New(options)
	return n, errors.Join(
		t.Counter("sidecall.notifications.sent", "Events that the webhook has taken.", n.Sent.Load),
		t.Counter("sidecall.notifications.failed", "Events that the webhook has not taken.", n.Failed.Load),
		t.Counter("sidecall.notifications.dropped", "Events that were not told, because too many waited.", n.Dropped.Load))
}

// notify tells the webhook of what becomes unknown, or held, until the life of the parts ends: and
// first of what waited at the start, since a process that was killed has told nobody.
func (p *parts) notify() {
	if p.notifier == nil {
		return
	}
	p.notified = make(chan struct{})
	go func() {
		defer close(p.notified)
		if err := p.tellOpen(p.life); err != nil && p.life.Err() == nil {
			p.telemetry.Logger.Warn("notify", "problem", "what waited at the start cannot be listed, and is not told", "error", err)
		}
		p.notifier.Run(p.life)
	}()
}

func (p *parts) tellOpen(ctx context.Context) error {
	for from := ""; ; {
		page, err := p.dedupe.ListOpen(ctx, from)
		if err != nil {
			return err
		}
		for _, open := range page.Calls {
			why := "it was of unknown outcome when this sidecar was started"
			if open.Record.State == dedupe.Held {
				why = "it was held when this sidecar was started"
			}
			p.notifier.TellOf(open.Key, &open.Record, why)
		}
		if from = page.Next; from == "" {
			return nil
		}
	}
}
