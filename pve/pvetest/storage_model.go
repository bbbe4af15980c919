package pvetest

// A storage is one entry of storage.cfg.
type storage struct {
	ID string `json:"id"`
}

func registerStorages(r *registry) {}
