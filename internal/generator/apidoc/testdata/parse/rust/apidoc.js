var apiSchema = [
  {"path": "/", "text": "/", "expanded": true, "leaf": 0,
   "info": {"GET": {"method": "GET", "description": "Directory index.", "unstable": false,
     "parameters": {"additionalProperties": true, "description": "Directory index.", "properties": {}},
     "permissions": {"user": "all"},
     "returns": {"type": "null", "description": "Nothing."}}},
   "children": [
    {"path": "/archive", "text": "archive", "leaf": 0,
     "info": {
       "GET": {"method": "DOWNLOAD", "description": "Download an archive.", "unstable": false,
         "parameters": {"additionalProperties": false, "properties": {
           "name": {"type": "string", "description": "Which one.", "minLength": 3.0, "maxLength": 64, "pattern": "/^[a-z]+$/"}}},
         "permissions": {"check": {"path": ["archive", "{name}"], "privs": ["Archive.Read", "Archive.Audit"], "partial": true}},
         "returns": {"type": "null", "description": "The archive."}},
       "POST": {"method": "UPLOAD", "description": "Upload an archive.", "unstable": true,
         "parameters": {"additionalProperties": false, "properties": {
           "options": {"type": "string", "description": "Options.", "optional": 1,
             "format": {"type": "object", "additionalProperties": false, "description": "Options.", "default_key": "level",
               "properties": {"level": {"type": "integer", "description": "Level.", "minimum": 0, "maximum": 9.0, "default": 3}}},
             "typetext": "[level=]<integer>"},
           "slot0": {"type": "string", "description": "Slot 0.", "optional": 1},
           "slot1": {"type": "string", "description": "Slot 1.", "optional": 1},
           "slot2": {"type": "string", "description": "Slot 2.", "optional": 1}}},
         "permissions": {"or": [{"check": {"path": [], "privs": ["Archive.Write"], "partial": false}}, {"userParam": "owner"}]},
         "returns": {"type": "object", "description": "What it has become.", "typeProperty": "kind",
           "typeSchema": {"type": "string", "description": "Kind.", "enum": ["full", "part"]},
           "oneOf": [
             {"type": "object", "title": "full", "description": "Whole.", "additionalProperties": false, "properties": {"size": {"type": "integer", "description": "Size."}}},
             {"type": "object", "title": "part", "description": "Part.", "additionalProperties": false, "properties": {"of": {"type": "string", "description": "Of which."}}}]}}}
    }
   ]}
];
