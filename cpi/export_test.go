package cpi

import "time"

// SetSettleTime shortens the wait for requests whose answer was lost.
func (c *CPI) SetSettleTime(d time.Duration) { c.settleTime = d }
