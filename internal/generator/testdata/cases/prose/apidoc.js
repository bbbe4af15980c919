const apiSchema = [
   {
      "info" : {
         "GET" : {
            "description" : "Read the thing.\n\nIt has *two* paragraphs, `code` and a\nline break.",
            "method" : "GET",
            "name" : "read",
            "parameters" : {
               "additionalProperties" : 0,
               "properties" : {
                  "id" : { "description" : "Which thing. See https://example.com/*/things.", "type" : "string", "typetext" : "<string>" },
                  "verbose" : { "description" : "Say more.", "optional" : 1, "type" : "boolean", "default": 0 }
               }
            },
            "permissions" : { "user" : "all" },
            "returns" : {
               "description" : "The thing.",
               "properties" : {
                  "colour" : { "description" : "Its colour */ with the end of a comment.", "enum" : [ "red", "green" ], "type" : "string" },
                  "net" : { "description": "A link.", "type": "string", "optional": 1, "format": { "bridge": { "type": "string", "description": "Where to.", "default_key": 1 } } }
               },
               "type" : "object"
            }
         }
      },
      "leaf" : 1,
      "path" : "/things/{id}",
      "text" : "{id}"
   }
];
let method2cmd = { GET: 'get' };
