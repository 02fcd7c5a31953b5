# Measurements of what was trained.


rule bpb:
    input:
        unpack(flow.inputs("bpb")),
    output:
        record=flow.record("bpb"),
    log:
        flow.log("bpb"),
    threads: flow.threads("bpb", workflow)
    resources:
        **flow.resources("bpb", workflow),
    params:
        study=flow.study_of("bpb"),
    message:
        "bits per byte of {wildcards.result}"
    shell:
        "exec xsa bpb {params.study} {output.record:q} --threads {threads}"
        " --devices {resources.devices} --nodes {resources.on_nodes} --log {log:q}"


rule core:
    input:
        unpack(flow.inputs("core")),
    output:
        record=flow.record("core"),
    log:
        flow.log("core"),
    threads: flow.threads("core", workflow)
    resources:
        **flow.resources("core", workflow),
    params:
        study=flow.study_of("core"),
    message:
        "CORE of {wildcards.result}"
    shell:
        "exec xsa core {params.study} {output.record:q} --threads {threads} --log {log:q}"


rule chatcore:
    input:
        unpack(flow.inputs("chatcore")),
    output:
        record=flow.record("chatcore"),
    log:
        flow.log("chatcore"),
    threads: flow.threads("chatcore", workflow)
    resources:
        **flow.resources("chatcore", workflow),
    params:
        study=flow.study_of("chatcore"),
    message:
        "ChatCORE of {wildcards.result}"
    shell:
        "exec xsa chatcore {params.study} {output.record:q} --threads {threads} --log {log:q}"
