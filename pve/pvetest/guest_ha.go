package pvetest

import "strconv"

// managed tells whether power calls for a guest are requests to the high
// availability manager only.
func (cl *cluster) managed(vmid int) bool {
	r := cl.HA["vm:"+strconv.Itoa(vmid)]
	return r != nil && r.State != "ignored"
}

// haOf is what a guest's status tells of its high availability.
func (cl *cluster) haOf(vmid int) map[string]any {
	if cl.managed(vmid) {
		return map[string]any{"managed": 1, "state": nil}
	}
	return map[string]any{"managed": 0}
}

// manage makes a guest a resource of high availability.
func (cl *cluster) manage(vmid int, started bool) {
	state := "stopped"
	if started {
		state = "started"
	}
	if cl.HA == nil {
		cl.HA = map[string]*haResource{}
	}
	id := "vm:" + strconv.Itoa(vmid)
	cl.HA[id] = &haResource{SID: id, State: state, Config: section{}}
}

// request changes the state that is asked for.
func (cl *cluster) request(vmid int, state string) {
	if r := cl.HA["vm:"+strconv.Itoa(vmid)]; r != nil {
		r.State = state
	}
}
