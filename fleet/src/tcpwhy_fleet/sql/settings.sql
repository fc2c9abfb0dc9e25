-- Sysctls and settings of devices as they were last read.
--
-- host | text | Host.
-- rec | text | Recording.
-- netns | id | Network namespace; 0 for settings of the whole host.
-- name | text | Name, as sysctl prints it.
-- value | text | Value.
WITH numbered AS (
    SELECT
        host,
        rec,
        netns,
        name,
        value,
        ROW_NUMBER() OVER (PARTITION BY rec, netns, name ORDER BY at_ns DESC, value) AS n
    FROM setting
)
SELECT host, rec, netns, name, value FROM numbered WHERE n = 1
