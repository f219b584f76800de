package variants

// rollouts are slips in the planner of rollouts and in the controller around it.
var rollouts = []variant{
	{
		name: "a budget that has shrunk is not heeded by nodes that are halfway",
		file: "internal/rollout/wave.go",
		from: "case p.midway(v) && after.acting < p.budget(v):",
		to:   "case p.midway(v):",
		in:   "./internal/rollout", tests: "TestShrunkBudget", say: "with a budget of 1: Update n0000 to r3 x2, Update n0001",
	},
	{
		name: "nobody asks whether an older pod is left",
		file: "internal/rollout/node.go",
		from: "\t\tcase p.Revision != d.Revision, p.ReplicaSet != n.presentReplicaSet():\n\t\t\treturn false, \"an older pod is left\", until\n",
		to:   "",
		in:   "./internal/rollout", tests: "TestComplete", say: `want to wait because "an older pod is left"`,
	},
	{
		name: "fields are set of a node for which the decision holds a step already",
		file: "internal/rollout/plan.go",
		from: "d.Outmoded && !v.acted &&",
		to:   "d.Outmoded &&",
		in:   "./internal/rollout", tests: "TestFieldsWaitForTheTurn", say: "ReleaseDetachment n0000, SetFields n0000",
	},
	{
		name: "fields are set while pods of a node are replaced that traffic reaches",
		file: "internal/rollout/plan.go",
		from: "\treturn !v.rolling() || ownTurn\n",
		to:   "\treturn !v.rolling() || ownTurn || !v.Marked()\n",
		in:   "./internal/rollout", tests: "TestFieldsWaitForTheTurn", say: "--- FAIL: TestFieldsWaitForTheTurn/detaching_since",
	},
	{
		name: "graces count by the clocks that wrote their beginning",
		file: "internal/rollout/sights.go",
		from: "\tif n.Seen == nil {\n\t\treturn asWritten(n)\n",
		to:   "\tif n.Seen != nil || p.Began.IsZero() {\n\t\treturn asWritten(n)\n",
		in:   "./internal/rollout", tests: "TestClockOfTheDetacher|TestClockOfAnotherLeader", say: "--- FAIL: TestClockOfTheDetacher/-10m0s",
	},
	{
		name: "an answer counts although the annotation that asks was removed",
		file: "internal/rollout/handshake.go",
		from: "if !v.Detachment.Requested || !v.Detachment.Held {",
		to:   "if !v.Detachment.Requested {",
		in:   "./internal/rollout", tests: "TestDetacher", say: "--- FAIL: TestDetacher/the_annotation_was_removed",
	},
	{
		name: "a port that answers counts as failing where its checker is missing",
		file: "internal/rollout/node.go",
		from: "func (c *Check) silenced() bool { return c.Gone && !c.Answered && !c.Accepted }",
		to:   "func (c *Check) silenced() bool { return c.Gone }",
		in:   "./internal/rollout", tests: "TestAcknowledgement", say: "--- FAIL: TestAcknowledgement/answers_with_no_checker",
	},
	{
		name: "a removed port is closed whoever asks it",
		file: "internal/rollout/checkers.go",
		from: "\t\tif v.Exists && (hooked || p.asked(v, port)) {\n",
		to:   "\t\tif v.Exists && hooked {\n",
		in:   "./internal/rollout", tests: "TestRetiringPort", say: "--- FAIL: TestRetiringPort/asked_on_one_node",
	},
	{
		name: "a dead node rejects a template",
		file: "internal/rollout/gate.go",
		from: "\treturn v.Ready && !silent && v.Deployment.Settled &&",
		to:   "\treturn !silent && v.Deployment.Settled &&",
		in:   "./internal/rollout", tests: "TestOnlyPodsRejectATemplate", say: "--- FAIL: TestOnlyPodsRejectATemplate/the_node_is_dead",
	},
	{
		name: "a revision is current where no node runs it",
		file: "internal/rollout/status.go",
		from: "\treturn proofs > 0 && p.passed()\n",
		to:   "\treturn p.passed()\n",
		in:   "./internal/rollout", tests: "TestProvenRevision", say: "--- FAIL: TestProvenRevision/all_are_dead",
	},
	{
		name: "a frozen controller touches a node whose claim was dropped",
		file: "internal/rollout/controller/apply.go",
		from: "if err := r.stillHolds(ctx, o, s); err != nil {",
		to:   "if err := error(nil); err != nil {",
		in:   "./internal/rollout/controller", tests: "TestClaimsOfAFrozenController", say: "TestClaimsOfAFrozenController/the_claims_changed",
	},
	{
		name: "a write is not refused although a claim was stamped since",
		file: "internal/rollout/controller/guard.go",
		from: "a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration()",
		to:   "a.GetUID() == b.GetUID()",
		in:   "./internal/rollout/controller", tests: "TestClaimsOfAFrozenController", say: "stamped_after_the_claims_were_looked_at",
	},
}
