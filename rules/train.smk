# Training. The record is the declared output; checkpoints lie beside it, where Snakemake never deletes them.


rule pretrain:
    input:
        unpack(flow.inputs("pretrain")),
    output:
        record=flow.record("pretrain"),
    log:
        flow.log("pretrain"),
    threads: flow.threads("pretrain", workflow)
    resources:
        **flow.resources("pretrain", workflow),
    params:
        study=flow.study_of("pretrain"),
    message:
        "training {wildcards.result}"
    shell:
        "exec xsa pretrain {params.study} {output.record:q} --threads {threads}"
        " --devices {resources.devices} --nodes {resources.on_nodes} --log {log:q}"


rule finetune:
    input:
        unpack(flow.inputs("finetune")),
    output:
        record=flow.record("finetune"),
    log:
        flow.log("finetune"),
    threads: flow.threads("finetune", workflow)
    resources:
        **flow.resources("finetune", workflow),
    params:
        study=flow.study_of("finetune"),
    message:
        "fine-tuning {wildcards.result}"
    shell:
        "exec xsa finetune {params.study} {output.record:q} --threads {threads}"
        " --devices {resources.devices} --nodes {resources.on_nodes} --log {log:q}"


rule imported:
    input:
        unpack(flow.inputs("imported")),
    output:
        record=flow.record("imported"),
    log:
        flow.log("imported"),
    threads: 1
    params:
        study=flow.study_of("imported"),
    message:
        "imported checkpoint {wildcards.result}"
    shell:
        "exec xsa imported {params.study} {output.record:q} --threads {threads} --log {log:q}"


rule imported_chat:
    input:
        unpack(flow.inputs("imported_chat")),
    output:
        record=flow.record("imported_chat"),
    log:
        flow.log("imported_chat"),
    threads: 1
    params:
        study=flow.study_of("imported_chat"),
    message:
        "imported chat model {wildcards.result}"
    shell:
        "exec xsa imported_chat {params.study} {output.record:q} --threads {threads} --log {log:q}"
