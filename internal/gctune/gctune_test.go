package gctune

import (
	"slices"
	"testing"
)

func TestLimitFollowsLargestFrameInFlight(t *testing.T) {
	const mib = 1 << 20
	var got []int64
	tuner := newTuner(func(limit int64) int64 {
		got = append(got, limit)
		return 0
	})
	tuner.Hold(100) // small: no effect
	tuner.Hold(3 * mib)
	tuner.Hold(4 * mib) // same class
	tuner.Hold(33 * mib)
	tuner.Release(33 * mib)
	tuner.Release(3 * mib)
	tuner.Release(100)
	tuner.Release(4 * mib)
	want := []int64{(64 + 16) * mib, (64 + 256) * mib, (64 + 16) * mib, 64 * mib}
	if !slices.Equal(got, want) {
		t.Errorf("limits = %v, want %v", got, want)
	}
}

func TestUserSettingsWin(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			t.Setenv(name, "200MiB")
			tuner := Start()
			if tuner != nil {
				t.Fatal("tuned in spite of the user's setting")
			}
			tuner.Hold(10 << 20) // a nil Tuner does nothing
			tuner.Release(10 << 20)
		})
	}
}
