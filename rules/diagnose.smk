# What the projection does to attention, and what it costs.


rule attention:
    input:
        unpack(flow.inputs("attention")),
    output:
        record=flow.record("attention"),
    log:
        flow.log("attention"),
    threads: flow.threads("attention", ALONE)
    params:
        study=flow.study_of("attention"),
    message:
        "alignment of {wildcards.result}"
    shell:
        "exec xsa attention {params.study} {output.record} --threads {threads} --log {log}"


rule overhead:
    output:
        record=flow.record("overhead"),
    log:
        flow.log("overhead"),
    threads: ALONE or 1
    params:
        study=flow.study_of("overhead"),
    message:
        "overhead of {wildcards.result}"
    shell:
        "exec xsa overhead {params.study} {output.record} --threads {threads} --log {log}"


rule equivalence:
    input:
        unpack(flow.inputs("equivalence")),
    output:
        record=flow.record("equivalence"),
    log:
        flow.log("equivalence"),
    threads: flow.threads("equivalence", ALONE)
    params:
        study=flow.study_of("equivalence"),
    message:
        "alpha = 0 equivalence of {wildcards.result}"
    shell:
        "exec xsa equivalence {params.study} {output.record} --threads {threads} --log {log}"
