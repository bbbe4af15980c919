package pvetest

import (
	"math/rand/v2"
	"sync"
	"time"
)

// A Server is a simulated cluster.
type Server struct {
	mu        sync.Mutex
	state     *cluster
	reg       *registry
	clock     func() time.Time
	booted    time.Time
	rng       *rand.Rand
	taskLooks int
	dir       string // where uploads and volumes with bytes are kept
}

func registerRoot(r *registry) {}
