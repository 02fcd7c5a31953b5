# Tables, figures and the page.


rule analyse:
    input:
        unpack(flow.inputs("analyse")),
    output:
        record=flow.record("analyse"),
    log:
        flow.log("analyse"),
    threads: 1
    params:
        study=flow.study_of("analyse"),
    message:
        "tables and figures of {wildcards.result}"
    shell:
        "exec xsa analyse {params.study} {output.record:q} --threads {threads} --log {log:q}"


rule report:
    input:
        unpack(flow.inputs("report")),
    output:
        record=flow.record("report"),
    log:
        flow.log("report"),
    threads: 1
    params:
        study=flow.study_of("report"),
    message:
        "page of {wildcards.result}"
    shell:
        "exec xsa report {params.study} {output.record:q} --threads {threads} --log {log:q}"


rule publish:
    input:
        page=flow.page,
        stamp=flow.published_stamp,
    output:
        f"{RESULTS}/{{study}}/report.html",
    log:
        f"{RESULTS}/.logs/publish/{{study}}.log",
    message:
        "page of {wildcards.study}: {output}"
    shell:
        "exec xsa publish {output:q} > {log:q}"


rule front_page:
    input:
        f"{RESULTS}/{FRONT_PAGE}/report.html",
    output:
        f"{RESULTS}/report.html",
    log:
        f"{RESULTS}/.logs/front_page.log",
    message:
        "page of the {FRONT_PAGE} study: {output}"
    shell:
        "cp {input:q} {output:q} 2> {log:q}"
