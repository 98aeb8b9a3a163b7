{% set double, integer, text, instant, by_bytes = "DOUBLE", "BIGINT", "STRING", "TIMESTAMP", "" %}
{% set extension = "the H3 functions of Databricks, or a function of this name." %}
{% macro hexagon(lat, lon, resolution) %}h3_longlatash3({{ lon }}, {{ lat }}, {{ resolution }}){% endmacro %}
{% macro value(x) %}CAST({{ x }} AS DOUBLE){% endmacro %}
{% macro rounded(x) %}round({{ x }}){% endmacro %}
{# The wall clock comes back as if it were UTC, whatever the session's time zone. #}
{% macro wall(t, zone) %}unix_seconds(from_utc_timestamp({{ t }}, {{ zone }})){% endmacro %}
{% macro start(s, kind) %}
{%- set shown = "CAST(TIMESTAMP_NTZ '1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, %s) AS STRING)"|format(s) -%}
{{ "replace(substring(%s, 1, 16), ' ', 'T')"|format(shown) if kind == "calendar" else "substring(%s, %s)"|format(shown, "12, 5" if kind == "pooled" else "1, 10") }}
{%- endmacro %}
{% macro element(x, i) %}try_element_at({{ x }}, {{ i }} + 1){% endmacro %}
{% macro kinds(x) %}
      WHEN typeof({{ x }}) = 'float' THEN 16777216
      WHEN typeof({{ x }}) = 'double' THEN 9007199254740992
      WHEN typeof({{ x }}) LIKE 'decimal%' THEN 0
      WHEN typeof({{ x }}) = 'boolean' THEN -1
{% endmacro %}
{% macro parsed(t) %}TRY_CAST({{ t }} AS DOUBLE){% endmacro %}
{% macro integral(x) %}TRY_CAST({{ x }} AS BIGINT){% endmacro %}
{# A zero of many places is written with an exponent. #}
{% macro trimmed(t) %}CASE WHEN TRY_CAST({{ t }} AS DOUBLE) = 0 THEN '0'
        WHEN locate('.', {{ t }}) > 0 THEN rtrim('.', rtrim('0', {{ t }})) ELSE {{ t }} END{% endmacro %}
{# Here a pattern's end is before a line break that ends the text, too. #}
{% macro matches(t, pattern) %}{{ t }} RLIKE {{ pattern }} AND translate({{ t }}, '-.0123456789', '') = ''{% endmacro %}
{% macro total(k) %}SUM(CAST({{ k }} AS DECIMAL(18, 0))){% endmacro %}
{% macro micros(t) %}CAST(unix_micros({{ t }}) AS STRING){% endmacro %}
{% macro drawn(t) %}CAST(conv(substr(md5({{ t }}), 1, 15), 16, 10) AS BIGINT){% endmacro %}
{% macro quotient(a, b) %}{{ a }} div {{ b }}{% endmacro %}
