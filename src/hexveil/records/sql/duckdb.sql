{% set double, integer, text, instant, by_bytes = "DOUBLE", "BIGINT", "VARCHAR", "TIMESTAMPTZ", "" %}
{% set extension = "the community extension h3: INSTALL h3 FROM community; LOAD h3;" %}
{% macro hexagon(lat, lon, resolution) %}h3_latlng_to_cell({{ lat }}, {{ lon }}, {{ resolution }}){% endmacro %}
{% macro value(x) %}CAST({{ x }} AS DOUBLE){% endmacro %}
{% macro rounded(x) %}round({{ x }}){% endmacro %}
{# floor, since a cast would round to the next second. #}
{% macro wall(t, zone) %}CAST(floor(epoch(timezone({{ zone }}, {{ t }}))) AS BIGINT){% endmacro %}
{% macro start(s, kind) %}strftime(make_timestamp(({{ s }}) * 1000000), '{{ {"calendar": "%Y-%m-%dT%H:%M", "pooled": "%H:%M", "day": "%Y-%m-%d"}[kind] }}'){% endmacro %}
{% macro element(x, i) %}{{ x }}[{{ i }} + 1]{% endmacro %}
{% macro kinds(x) %}
      WHEN typeof({{ x }}) = 'FLOAT' THEN 16777216
      WHEN typeof({{ x }}) = 'DOUBLE' THEN 9007199254740992
      WHEN typeof({{ x }}) LIKE 'DECIMAL%' THEN 0
      WHEN typeof({{ x }}) = 'BOOLEAN' THEN -1
{% endmacro %}
{% macro parsed(t) %}TRY_CAST({{ t }} AS DOUBLE){% endmacro %}
{% macro integral(x) %}TRY_CAST({{ x }} AS BIGINT){% endmacro %}
{% macro trimmed(t) %}CASE WHEN contains({{ t }}, '.') THEN rtrim(rtrim({{ t }}, '0'), '.') ELSE {{ t }} END{% endmacro %}
{% macro matches(t, pattern) %}regexp_matches({{ t }}, {{ pattern }}){% endmacro %}
{% macro total(k) %}SUM({{ k }}){% endmacro %}
{% macro micros(t) %}CAST(epoch_us({{ t }}) AS VARCHAR){% endmacro %}
{% macro drawn(t) %}CAST('0x' || substr(md5({{ t }}), 1, 15) AS BIGINT){% endmacro %}
{% macro quotient(a, b) %}{{ a }} // {{ b }}{% endmacro %}
