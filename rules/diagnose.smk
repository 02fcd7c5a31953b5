# What the projection does to attention, and what it costs.


rule attention:
    input:
        unpack(flow.inputs("attention")),
    output:
        record=flow.record("attention"),
    log:
        flow.log("attention"),
    threads: flow.threads("attention", workflow)
    resources:
        **flow.resources("attention", workflow),
    params:
        study=flow.study_of("attention"),
    message:
        "alignment of {wildcards.result}"
    shell:
        "exec xsa attention {params.study} {output.record:q} --threads {threads} --log {log:q}"


rule overhead:
    output:
        record=flow.record("overhead"),
    log:
        flow.log("overhead"),
    threads: flow.threads("overhead", workflow, alone=True)
    resources:
        **flow.resources("overhead", workflow),
    params:
        study=flow.study_of("overhead"),
    message:
        "overhead of {wildcards.result}"
    shell:
        "exec xsa overhead {params.study} {output.record:q} --threads {threads} --log {log:q}"


rule equivalence:
    input:
        unpack(flow.inputs("equivalence")),
    output:
        record=flow.record("equivalence"),
    log:
        flow.log("equivalence"),
    threads: flow.threads("equivalence", workflow)
    resources:
        **flow.resources("equivalence", workflow),
    params:
        study=flow.study_of("equivalence"),
    message:
        "alpha = 0 equivalence of {wildcards.result}"
    shell:
        "exec xsa equivalence {params.study} {output.record:q} --threads {threads} --log {log:q}"
