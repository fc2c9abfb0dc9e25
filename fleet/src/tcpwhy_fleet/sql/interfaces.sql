-- Which interface has which address, where one alone has it.
--
-- host | text | Host.
-- rec | text | Recording.
-- netns | id | Network namespace.
-- addr | address | The address.
-- interface | text | The interface.
SELECT host, rec, netns, addr, MAX(interface) AS interface
FROM interface_address
GROUP BY host, rec, netns, addr
HAVING COUNT(DISTINCT interface) = 1
