{% set double, integer, text, instant, by_bytes = "FLOAT64", "INT64", "STRING", "TIMESTAMP", "" %}
{% set extension = "CARTO's Analytics Toolbox, here in its US copy; elsewhere name that region's." %}
{% macro hexagon(lat, lon, resolution) %}`carto-os`.carto.H3_FROMLONGLAT({{ lon }}, {{ lat }}, {{ resolution }}){% endmacro %}
{% macro value(x) %}CAST({{ x }} AS FLOAT64){% endmacro %}
{% macro rounded(x) %}ROUND({{ x }}){% endmacro %}
{% macro wall(t, zone) %}DATETIME_DIFF(DATETIME({{ t }}, {{ zone }}), DATETIME '1970-01-01 00:00:00', SECOND){% endmacro %}
{% macro start(s, kind) %}FORMAT_DATETIME('{{ {"calendar": "%Y-%m-%dT%H:%M", "pooled": "%H:%M", "day": "%Y-%m-%d"}[kind] }}', DATETIME_ADD(DATETIME '1970-01-01 00:00:00', INTERVAL ({{ s }}) SECOND)){% endmacro %}
{% macro element(x, i) %}{{ x }}[SAFE_OFFSET({{ i }})]{% endmacro %}
{# No function tells a type, but only a float's literal begins so; a decimal's never ends in zeros. #}
{% macro kinds(x) %}
      WHEN REGEXP_CONTAINS(FORMAT('%T', {{ x }}), r'^(-?[0-9]+([.]|e)|CAST[(])') THEN 9007199254740992
      WHEN FORMAT('%T', {{ x }}) IN ('true', 'false') THEN -1
{% endmacro %}
{% macro parsed(t) %}SAFE_CAST({{ t }} AS FLOAT64){% endmacro %}
{% macro integral(x) %}SAFE_CAST({{ x }} AS INT64){% endmacro %}
{% macro trimmed(t) %}{{ t }}{% endmacro %}
{% macro matches(t, pattern) %}REGEXP_CONTAINS({{ t }}, {{ pattern }}){% endmacro %}
{% macro total(k) %}SUM(CAST({{ k }} AS NUMERIC)){% endmacro %}
{% macro micros(t) %}CAST(UNIX_MICROS({{ t }}) AS STRING){% endmacro %}
{% macro drawn(t) %}CAST(CONCAT('0x', SUBSTR(TO_HEX(MD5({{ t }})), 1, 15)) AS INT64){% endmacro %}
{% macro quotient(a, b) %}DIV({{ a }}, {{ b }}){% endmacro %}
