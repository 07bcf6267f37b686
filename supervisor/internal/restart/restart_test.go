package restart

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func whole(d time.Duration) time.Duration { return d }

// life starts and ends one worker and returns the decision.
func life(s *State, now *time.Time, uptime time.Duration, end End) Decision {
	began := *now
	s.Started(began)
	*now = now.Add(uptime)
	return s.Ended(end, began, *now)
}

// SUP-2: a first start and at most five restarts, with growing pauses; the next
// crash opens the circuit.
func TestSUP2BudgetAndBackoff(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(Default(), whole)
	pauses := []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}
	for i, want := range pauses {
		d := life(s, &now, 20*time.Millisecond, Crash)
		if d.Open || d.At.Sub(now) != want {
			t.Fatalf("crash %d: open %v, pause %v, want %v", i+1, d.Open, d.At.Sub(now), want)
		}
		now = d.At
	}
	d := life(s, &now, 20*time.Millisecond, Crash)
	if !d.Open || d.At.Sub(now) != time.Minute || d.Reason == "" {
		t.Fatalf("sixth crash: %+v", d)
	}
}

// SUP-2: a worker that answers and dies again is a loop all the same; only an
// uptime beyond the window makes the next restart immediate.
func TestSUP2OnlySustainedUptimeResets(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(Default(), whole)
	for range 3 {
		now = life(s, &now, 9*time.Second, Crash).At
	}
	if d := life(s, &now, 9*time.Second, Crash); d.At.Sub(now) != 400*time.Millisecond {
		t.Errorf("after short uptimes: pause %v", d.At.Sub(now))
	}
	if d := life(s, &now, 31*time.Second, Crash); d.At.Sub(now) != 0 {
		t.Errorf("after a sustained uptime: pause %v", d.At.Sub(now))
	}
}

// SUP-2: an open circuit tries unattended after the cooldown, which doubles to
// ten minutes, and on demand once the last start is older than the longest
// backoff.
func TestSUP2HalfOpen(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(Default(), whole)
	var d Decision
	for range 6 {
		d = life(s, &now, 0, Crash)
		now = d.At
	}
	wants := []time.Duration{2 * time.Minute, 4 * time.Minute, 8 * time.Minute, MaxCooldown, MaxCooldown}
	for i, want := range wants {
		if d = life(s, &now, 0, Crash); !d.Open || d.At.Sub(now) != want {
			t.Fatalf("probe %d: open %v, next in %v, want %v", i+1, d.Open, d.At.Sub(now), want)
		}
		if s.Demand(now.Add(9 * time.Second)) {
			t.Fatal("a start on demand within the longest backoff")
		}
		if !s.Demand(now.Add(10 * time.Second)) {
			t.Fatal("no start on demand after the longest backoff")
		}
		now = d.At
	}
	if d = life(s, &now, 31*time.Second, Crash); d.Open {
		t.Error("a probe with a sustained uptime did not close the circuit")
	}
}

// SUP-3, C16: exit code 75 charges an own limiter and never the crash budget.
func TestSUP3HandoffsAreLimitedApart(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(Default(), whole)
	for i := range 4 {
		if d := life(s, &now, 2*time.Second, Handoff); d.Open || !d.At.Equal(now) {
			t.Fatalf("handoff %d: %+v", i+1, d)
		}
	}
	for i := range 5 {
		d := life(s, &now, 0, Crash)
		if d.Open {
			t.Fatalf("crash %d after four handoffs opened the circuit", i+1)
		}
		now = d.At
	}
	if crashes, handoffs := s.Used(now); crashes != 5 || handoffs != 4 {
		t.Errorf("used %d crashes, %d handoffs", crashes, handoffs)
	}

	s = New(Default(), whole)
	var d Decision
	for range 6 {
		d = life(s, &now, 0, Handoff)
	}
	if !d.Open {
		t.Error("endless handoffs are not limited")
	}
	if crashes, _ := s.Used(now); crashes != 0 {
		t.Errorf("handoffs charged %d crashes", crashes)
	}
	s.Rearm() // SUP-4: a requested replacement
	if d := life(s, &now, 0, Handoff); d.Open {
		t.Error("a requested replacement did not re-arm")
	}
}

// TestSUP2Model compares the crash circuit with a simple model over random
// lives: it is open exactly if more crashes than the budget lie in one window,
// or a probe has failed, since the last sustained uptime or re-arming.
func TestSUP2Model(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := Default()
		policy.Crash.Count = rapid.IntRange(0, 6).Draw(t, "budget")
		s := New(policy, nil)
		now := time.Unix(1000, 0)
		var crashes []time.Time
		open := false
		for range 200 {
			uptime := time.Duration(rapid.IntRange(0, 40_000).Draw(t, "uptime")) * time.Millisecond
			end := rapid.SampledFrom([]End{Crash, Crash, Crash, Handoff, Uncharged}).Draw(t, "end")
			if rapid.IntRange(0, 30).Draw(t, "rearm") == 0 {
				s.Rearm()
				crashes, open = nil, false
			}
			probe := open
			d := life(s, &now, uptime, end)
			if uptime > policy.Crash.Window {
				crashes, open = nil, false
				probe = false
			}
			if end == Crash {
				crashes = append(crashes, now)
				crashes = slices.DeleteFunc(crashes, func(c time.Time) bool { return now.Sub(c) >= policy.Crash.Window })
				open = open || probe || len(crashes) > policy.Crash.Count
			}
			if s.crash.open != open {
				t.Fatalf("open %v, model %v (crashes %v, budget %v)", s.crash.open, open, crashes, policy.Crash)
			}
			if d.At.Before(now) || !d.Open && d.At.Sub(now) > policy.Backoff.Max {
				t.Fatalf("next start in %v", d.At.Sub(now))
			}
			if want := end == Crash && open || end == Handoff && s.handoff.open; d.Open != want || want && d.Reason == "" {
				t.Fatalf("decision %+v", d)
			}
			now = d.At
		}
	})
}

func TestForms(t *testing.T) {
	var b Budget
	for _, bad := range []string{"5", "5/0s", "-1/30s", "5/x", "/30s", "a/1s", "5/-1s"} {
		if b.Set(bad) == nil {
			t.Errorf("budget %q was taken", bad)
		}
	}
	if err := b.Set("1000/30s"); err != nil || b != (Budget{1000, 30 * time.Second}) || b.String() != "1000/30s" {
		t.Errorf("budget %v, %v", b, err)
	}
	var r Backoff
	for _, bad := range []string{"1s", "2s..1s", "-1s..1s", "x..1s", "1s.."} {
		if r.Set(bad) == nil {
			t.Errorf("backoff %q was taken", bad)
		}
	}
	if err := r.Set("0s..0s"); err != nil || r != (Backoff{}) {
		t.Errorf("backoff %v, %v", r, err)
	}
}
