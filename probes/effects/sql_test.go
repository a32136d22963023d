package effects

import (
	"errors"
	"strings"
	"testing"
)

func TestABuildWithoutDriversSaysSo(t *testing.T) {
	if _, err := NewSQL(t.Context(), SQL{Driver: "postgres"}); !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), "-tags full") {
		t.Error(err)
	}
}
