var apiSchema = [
 {"path": "/jobs", "text": "jobs", "info": {
   "GET": {"method": "GET", "parameters": {"additionalProperties": false, "properties": {"states": {"type": "array", "optional": 1, "items": {"type": "string"}}}, "type": "object"}, "permissions": {"check": {"path": ["system"], "privs": ["Sys.Audit"], "partial": true}},
     "returns": {"type": "array", "items": {"additionalProperties": false, "type": "object", "properties": {"id": {"type": "string", "pattern": "/^[a-z]+$/"}, "enabled": {"type": "boolean", "optional": 1, "default": true}}}}},
   "POST": {"method": "POST", "parameters": {"additionalProperties": false, "type": "object", "properties": {
       "id": {"type": "string", "minLength": 3, "maxLength": 32, "pattern": "/^(?:[A-Za-z0-9_][A-Za-z0-9._\\-]*)$/"},
       "keep": {"type": "integer", "minimum": 1.0, "optional": 1},
       "dry-run": {"type": "boolean", "optional": 1, "default": false},
       "targets": {"type": "array", "items": {"type": "string"}, "optional": 1},
       "filter": {"type": "object", "optional": 1, "additionalProperties": false, "properties": {"mode": {"type": "string", "enum": ["all", "any"]}, "names": {"type": "array", "items": {"type": "string"}, "optional": 1}}},
       "notify": {"type": "string", "optional": 1, "format": {"type": "object", "additionalProperties": false, "properties": {"gc": {"type": "string", "enum": ["always", "never"], "optional": 1}, "sync": {"type": "string", "optional": 1}}}},
       "modes": {"type": "string", "optional": 1, "format": {"type": "array", "items": {"type": "string"}}}}},
     "returns": {"type": "null"}}},
  "children": [
   {"path": "/jobs/{id}", "text": "{id}", "info": {
     "PUT": {"method": "PUT", "parameters": {"additionalProperties": false, "type": "object", "properties": {"delete": {"type": "array", "optional": 1, "items": {"type": "string", "enum": ["keep", "notify"]}}, "keep": {"type": "integer", "optional": 1}}}, "returns": {"type": "null"}}},
    "children": [{"path": "/jobs/{id}/run", "text": "run", "leaf": 1, "info": {"POST": {"method": "POST", "parameters": {"additionalProperties": false, "type": "object", "properties": {"id": {"type": "string"}}}, "returns": {"type": "string", "minLength": 36, "pattern": "/^UPID:(?P<node>[a-z]+):$/"}}}}]}
  ]},
 {"path": "/files", "text": "files", "info": {"GET": {"method": "GET", "parameters": {"additionalProperties": true, "type": "object", "properties": {}}, "permissions": {"user": "all"}, "returns": {"type": "null"}}},
  "children": [
   {"path": "/files/download", "text": "download", "leaf": 1, "info": {"GET": {"method": "DOWNLOAD", "parameters": {"additionalProperties": false, "type": "object", "properties": {"file-name": {"type": "string"}}}, "returns": {"type": "null"}}}},
   {"path": "/files/upload-log", "text": "upload-log", "leaf": 1, "info": {"POST": {"method": "UPLOAD", "parameters": {"additionalProperties": false, "type": "object", "properties": {"store": {"type": "string"}}}, "returns": {"type": "null"}}}}
  ]},
 {"path": "/resources", "text": "resources", "leaf": 1, "info": {"GET": {"method": "GET", "parameters": {"additionalProperties": false, "type": "object", "properties": {}}, "returns": {"type": "array", "items": {
   "type": "object", "typeProperty": "kind", "typeSchema": {"type": "string", "enum": ["node", "disk"]},
   "oneOf": [
     {"title": "node", "type": "object", "additionalProperties": false, "properties": {"id": {"type": "string"}, "uptime": {"type": "integer"}}},
     {"title": "disk", "type": "object", "additionalProperties": false, "properties": {"id": {"type": "string"}, "size": {"type": "integer"}}}]}}}}},
 {"path": "/stream", "text": "stream", "children": [{"path": "/stream/_upgrade_", "text": "_upgrade_", "children": [{"path": "/stream/_upgrade_/chunk", "text": "chunk", "leaf": 1, "info": {"POST": {"method": "UPLOAD", "parameters": {"additionalProperties": false, "type": "object", "properties": {"digest": {"type": "string"}}}, "returns": {"type": "null"}}}}]}]}
]
;
// the viewer's own script follows
Ext.onReady(function () { var x = [1, 2, { a: "]" }]; });
