// The viewer's script begins with the tree of the API.
const apiSchema = [
   {
      "children" : [
         {
            "children" : [
               {
                  "info" : {
                     "DELETE" : {
                        "allowtoken" : 1,
                        "description" : "Scrap a rocket.",
                        "method" : "DELETE",
                        "name" : "scrap",
                        "parameters" : {
                           "additionalProperties" : 0,
                           "properties" : {
                              "purge" : {
                                 "default" : "0",
                                 "description" : "Forget it altogether.",
                                 "optional" : "1",
                                 "type" : "boolean",
                                 "typetext" : "<boolean>"
                              },
                              "pad" : {
                                 "description" : "Where it stands.",
                                 "format" : "demo-pad",
                                 "type" : "string",
                                 "typetext" : "<string>"
                              }
                           }
                        },
                        "permissions" : {
                           "check" : ["or", ["perm", "/pads/{pad}", ["Rocket.Scrap"]], ["userid-param", "self"]]
                        },
                        "protected" : 1,
                        "proxyto" : "pad",
                        "returns" : { "type" : "string" }
                     },
                     "PUT" : {
                        "allowtoken" : 0,
                        "description" : "Refit a rocket.",
                        "method" : "PUT",
                        "name" : "refit",
                        "parameters" : {
                           "additionalProperties" : 0,
                           "properties" : {
                              "engine[n]" : {
                                 "description" : "An engine.",
                                 "format" : {
                                    "kind" : { "default_key" : 1, "description" : "What it burns.", "enum" : ["kero", "meth"], "type" : "string" },
                                    "kero" : { "alias" : "serial", "keyAlias" : "kind" },
                                    "serial" : { "optional" : 1, "type" : "string", "format_description" : "SERIAL" },
                                    "thrust" : { "default" : "as much as it can", "max" : 9000, "min" : "1", "optional" : 1, "type" : "integer" },
                                    "type" : { "alias" : "kind" }
                                 },
                                 "optional" : 1,
                                 "type" : "string",
                                 "typetext" : "[kind=]<kero|meth> [,serial=<SERIAL>] [,thrust=<integer>] [,<kind>=<serial>]"
                              },
                              "launch" : {
                                 "description" : "When to go.",
                                 "format" : "demo-launch",
                                 "optional" : 1,
                                 "type" : "string",
                                 "typetext" : "[[window=]<first|second>] [,hold=<1|0>] ,t-minus=<integer>"
                              },
                              "pad" : { "optional" : 1, "type" : "integer" }
                           }
                        },
                        "permissions" : {
                           "description" : "One must be an engineer, too.",
                           "user" : "all"
                        },
                        "returns" : { "type" : "null" }
                     }
                  },
                  "leaf" : 1,
                  "path" : "/rockets/{pad}/{serial}",
                  "text" : "{serial}"
               }
            ],
            "info" : {
               "GET" : {
                  "allowtoken" : 1,
                  "description" : "Rockets on a pad.",
                  "method" : "GET",
                  "name" : "index",
                  "parameters" : {
                     "additionalProperties" : 0,
                     "properties" : { "pad" : { "type" : "string" } }
                  },
                  "permissions" : { "user" : "world" },
                  "proxyto" : null,
                  "returns" : {
                     "items" : {
                        "properties" : {
                           "launch" : { "format" : "demo-launch", "optional" : 1, "type" : "string" },
                           "mass" : { "renderer" : "bytes", "title" : "Mass", "type" : "integer" },
                           "state" : { "enum" : ["ready", "flown"] }
                        }
                     },
                     "links" : [ { "href" : "{serial}", "rel" : "child" } ],
                     "type" : "array"
                  }
               }
            },
            "leaf" : 0,
            "path" : "/rockets/{pad}",
            "text" : "{pad}"
         }
      ],
      "leaf" : 0,
      "path" : "/rockets",
      "text" : "rockets"
   }
]
;

let method2cmd = { GET: 'get', POST: 'create', PUT: 'set', DELETE: 'delete' };
