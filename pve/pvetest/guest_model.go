package pvetest

// A guest is a virtual machine.
type guest struct {
	VMID int    `json:"vmid"`
	Node string `json:"node"`
}

func registerGuests(r *registry) {}
